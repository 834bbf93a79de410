"""The operator's calls about accounts that are not served."""
