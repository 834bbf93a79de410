"""HTTP besides the RPCs: pages for people, documents of the API, metrics."""
