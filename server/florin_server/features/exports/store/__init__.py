"""Rows for exports, page by page."""
