"""Pictures of merchants."""
