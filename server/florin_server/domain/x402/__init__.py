"""x402, version 2: payments by programs, in HTTP headers."""
