"""Settlement: transactions that move buyers' money on chains, their proofs and their gas."""
