"""How buyers pay on an EVM chain: what is offered, what it promises, how it is verified."""
