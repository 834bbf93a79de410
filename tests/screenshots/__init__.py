"""`make screenshots`: pictures of every state of the hosted pages, for people and documents."""
