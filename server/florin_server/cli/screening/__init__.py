"""The commands about accounts that are not served."""
