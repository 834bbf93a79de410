"""The commands about real chains."""
