"""Stored facts about Florin's transactions."""
