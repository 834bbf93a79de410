"""The finality of public networks, and how long Florin waits on each kind of network.

Even where a network calls a block final at once, Florin waits for some blocks and seconds: a node
may be ahead of its network, and another node behind.
"""

from __future__ import annotations

from typing import Final

from florin_server.rails.networks.network import NetworkPace

# Ethereum: more than a quarter of an epoch; reorgs of more than two blocks make the news.
ETHEREUM: Final = NetworkPace(confirmations=12, poll_ms=4_000, eta_s=150, final_after_s=132)
# BSC: votes make a block final after two blocks, which nodes report. Florin waits for at least five
# times that, in blocks of 0.45 s (since 14 January 2026).
BSC: Final = NetworkPace(
    confirmations=10, poll_ms=1_000, eta_s=10, final_after_s=5, finality_tag="finalized"
)
# Polygon: milestones make blocks final after some seconds, which nodes report. Florin waits for at
# least half a minute of two-second blocks.
POLYGON: Final = NetworkPace(
    confirmations=16, poll_ms=2_000, eta_s=35, final_after_s=30, finality_tag="finalized"
)
# Monad: final two blocks later, each 0.4 s.
MONAD: Final = NetworkPace(confirmations=5, poll_ms=500, eta_s=3, final_after_s=2)
# Rollups: one sequencer orders blocks (two seconds or one on OP chains and Linea, 0.2 on Base since
# 5 November 2026, one on Celo, a quarter on Arbitrum). Some seconds outlast a sequencer's restart,
# regardless of the number of blocks.
OP_CHAIN: Final = NetworkPace(confirmations=5, poll_ms=1_000, eta_s=12, final_after_s=10)
CELO: Final = NetworkPace(confirmations=8, poll_ms=1_000, eta_s=10, final_after_s=7)
ARBITRUM: Final = NetworkPace(confirmations=20, poll_ms=500, eta_s=6, final_after_s=5)
# Avalanche, Sonic, HyperEVM, Plasma: a committed block is never replaced; about one second per
# block.
COMMITTED: Final = NetworkPace(confirmations=3, poll_ms=1_000, eta_s=6, final_after_s=4)
# Sei: like these, with blocks of 0.4 s; nodes return the newest block for `finalized`.
SEI: Final = NetworkPace(
    confirmations=3, poll_ms=500, eta_s=4, final_after_s=2, finality_tag="finalized"
)
# XDC: Circle waits for three blocks of two seconds; Florin waits twice as long.
XDC: Final = NetworkPace(confirmations=6, poll_ms=2_000, eta_s=15, final_after_s=10)
# Tempo: certificates make a block final before the next block, each half a second.
TEMPO: Final = NetworkPace(confirmations=3, poll_ms=500, eta_s=4, final_after_s=2)
# Solana is followed by its finalized slots: certificates make slots final after 150 ms since 21
# October 2026 (solana.com, finality). The rest is the time to land, and one poll.
SOLANA: Final = NetworkPace(confirmations=1, poll_ms=1_000, eta_s=3)
