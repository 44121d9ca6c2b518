"""Webhooks: events of runs, signed and posted to whoever subscribed to them."""
