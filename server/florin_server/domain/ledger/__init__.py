"""The books: accounts, journals, and what is booked when; `store/ledger` keeps them."""
