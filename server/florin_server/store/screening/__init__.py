"""Lists of accounts that are not served."""
