"""Tools for those who work on Florin; none of them is installed with it."""
