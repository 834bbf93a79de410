"""The ledger: accounts, journals and postings; `money/ledger` stores them."""
