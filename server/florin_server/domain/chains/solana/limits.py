"""The sizes of Solana's transactions, in bytes, by version."""

from typing import Final

# of a legacy transaction and of version 0, which Florin builds: one packet
PACKET_BYTES: Final = 1_232
# of version 1 (SIMD-0385)
V1_BYTES: Final = 4_096
# first byte of a transaction of version 1; others begin with the number of their signatures
V1_FIRST_BYTE: Final = b"\x81"
