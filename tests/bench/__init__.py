"""Benchmarks: what each subject measures, and its target."""
