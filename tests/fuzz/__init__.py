"""Requests made up from the OpenAPI document, and answers held against it."""
