"""Figures: what is measured, and what each was expected to reach."""
