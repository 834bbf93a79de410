"""The ledger: accounts, journals and postings; `store/ledger` stores them."""
