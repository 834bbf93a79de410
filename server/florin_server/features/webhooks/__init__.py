"""Webhooks: endpoints of merchants, and the deliveries of payments' events to them."""
