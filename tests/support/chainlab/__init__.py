"""Profiles of chains that the embedded ones take on, and labs that run under them.

`--chain-profile NAME` or `FLORIN_CHAIN_PROFILE` selects one for the labs of a whole run.
"""
