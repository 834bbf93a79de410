"""Postings of money that moves, and comparisons of the books with the chains."""
