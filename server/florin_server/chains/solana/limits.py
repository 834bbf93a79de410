"""How many bytes Solana's transactions have."""

from typing import Final

# what fits into one packet, and every cluster takes
PACKET_BYTES: Final = 1_232
# what clusters take since Agave 4.2 (solana.com, upgrades, 2026)
TRANSACTION_BYTES_MAX: Final = 4_096
