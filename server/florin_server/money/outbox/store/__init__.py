"""The stored events, and events of rows that older releases wrote."""
