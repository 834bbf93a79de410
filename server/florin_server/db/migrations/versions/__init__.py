"""The schema's versions, one file for each change."""
