"""Stored endpoints, deliveries, attempts and replays."""
