"""The console: pages for merchants and for the operator, over the same RPCs as the API."""
