"""Connections to addresses that tenants choose (webhooks, HTTP agents): only public ones."""

from evalwright.host.egress.addresses import MAX_URL_LENGTH, EgressRefused
from evalwright.host.egress.guard import Egress, EgressPolicy, Lookup

__all__ = ["MAX_URL_LENGTH", "Egress", "EgressPolicy", "EgressRefused", "Lookup"]
