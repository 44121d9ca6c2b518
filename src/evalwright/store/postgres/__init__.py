"""The event log in PostgreSQL, for many processes on many machines."""
