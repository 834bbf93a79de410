"""Profiles of chains that the embedded ones take on, and harnesses that run under them.

`--chain-profile NAME` or `FLORIN_CHAIN_PROFILE` selects one for the harnesses of a whole run.
"""
