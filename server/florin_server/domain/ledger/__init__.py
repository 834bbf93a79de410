"""The ledger: accounts, journals and postings; `money/ledger/store` stores them."""
