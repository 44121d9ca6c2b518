"""The calls of the protocol, each written once; the clients differ only in how they are made."""

from evalwright.client.calls import catalogue, deployments, runs, webhooks

__all__ = ["catalogue", "deployments", "runs", "webhooks"]
