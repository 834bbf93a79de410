"""Pictures that merchants name, shown from our host."""
