"""`make screenshots`: pictures of pages for documents, and sheets of every state for tests."""
