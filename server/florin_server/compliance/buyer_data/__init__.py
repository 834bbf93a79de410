"""Buyer data: what buyers give about themselves before they pay."""
