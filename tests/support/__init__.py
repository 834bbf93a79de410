"""What tests share: a service, a wallet, and clients that know REST and gRPC only."""
