"""Answers to repeated requests."""
