"""Webhooks: events of runs, signed and posted to subscribers."""
