"""The checks that every call passes before its servicer, and helpers of servicers."""
