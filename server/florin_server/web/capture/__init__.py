"""The form for data about a buyer."""
