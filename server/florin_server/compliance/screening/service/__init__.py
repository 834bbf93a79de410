"""Screening of accounts."""
