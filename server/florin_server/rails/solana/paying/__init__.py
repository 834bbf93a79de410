"""How buyers pay on Solana: what is offered, what it promises, how it is verified."""
