"""Stored rows for exports, page by page."""
