"""The operator's calls about screening lists and blocked accounts."""
