"""How public networks make blocks final, and what Florin waits for on each kind of them.

Where a network calls a block final at once, some blocks and seconds are waited for all the same: a
node may be ahead of its network, and another one behind.
"""

from __future__ import annotations

from typing import Final

from florin_server.rails.networks.network import Pace

# Ethereum: a quarter of an epoch and more; reorgs of more than two blocks are news.
ETHEREUM: Final = Pace(confirmations=12, poll_ms=4_000, eta_s=150, final_after_s=132)
# BSC: votes make a block final after two, which nodes tell; five times that in any case, in blocks
# of 0.45 s (since 14 January 2026).
BSC: Final = Pace(
    confirmations=10, poll_ms=1_000, eta_s=10, final_after_s=5, finality_tag="finalized"
)
# Polygon: milestones make blocks final after some seconds, which nodes tell; half a minute of
# two-second blocks in any case.
POLYGON: Final = Pace(
    confirmations=16, poll_ms=2_000, eta_s=35, final_after_s=30, finality_tag="finalized"
)
# Monad: final two blocks later, each 0.4 s.
MONAD: Final = Pace(confirmations=5, poll_ms=500, eta_s=3, final_after_s=2)
# Rollups: one sequencer orders blocks (two seconds or one on OP chains and Linea, 0.2 on Base since
# 5 November 2026, one on Celo, a quarter on Arbitrum). Some seconds outlast a sequencer that
# restarts, however many blocks that are.
OP_CHAIN: Final = Pace(confirmations=5, poll_ms=1_000, eta_s=12, final_after_s=10)
CELO: Final = Pace(confirmations=8, poll_ms=1_000, eta_s=10, final_after_s=7)
ARBITRUM: Final = Pace(confirmations=20, poll_ms=500, eta_s=6, final_after_s=5)
# Avalanche, Sonic, HyperEVM, Plasma: a block that is committed is never replaced; about a second a
# block.
COMMITTED: Final = Pace(confirmations=3, poll_ms=1_000, eta_s=6, final_after_s=4)
# Sei: the same with blocks of 0.4 s, and nodes answer the newest block to `finalized`.
SEI: Final = Pace(confirmations=3, poll_ms=500, eta_s=4, final_after_s=2, finality_tag="finalized")
# XDC: Circle waits for three blocks, each two seconds; twice that here.
XDC: Final = Pace(confirmations=6, poll_ms=2_000, eta_s=15, final_after_s=10)
# Tempo: certificates make a block final before the next one, each half a second.
TEMPO: Final = Pace(confirmations=3, poll_ms=500, eta_s=4, final_after_s=2)
# Solana is followed by its finalized slots: certificates make slots final after 150 ms since
# 21 October 2026 (solana.com, finality). What is left is landing, and one look.
SOLANA: Final = Pace(confirmations=1, poll_ms=1_000, eta_s=3)
