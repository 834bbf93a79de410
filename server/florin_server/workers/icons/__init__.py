"""Pictures that merchants name are fetched."""
