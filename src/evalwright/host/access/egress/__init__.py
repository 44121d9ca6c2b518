"""Connections to addresses that tenants choose (webhooks, HTTP agents): only public ones."""

from evalwright.host.access.egress.addresses import MAX_URL_LENGTH, EgressRefused
from evalwright.host.access.egress.guard import Egress, EgressPolicy, Lookup

__all__ = ["MAX_URL_LENGTH", "Egress", "EgressPolicy", "EgressRefused", "Lookup"]
