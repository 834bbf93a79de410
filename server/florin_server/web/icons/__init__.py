"""Pictures that merchants name."""
