"""Data that buyers give before they pay."""
