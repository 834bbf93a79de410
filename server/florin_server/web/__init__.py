"""What is told over HTTP besides the RPCs: pages for people, the API's documents, metrics."""
