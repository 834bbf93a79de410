"""Requests generated from the OpenAPI document, and checks of the answers against it."""
