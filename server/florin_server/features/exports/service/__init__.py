"""Runs of exports: new rows since the last run, as parts of tables."""
