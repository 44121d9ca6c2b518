"""The event log: its protocol and the SQLite implementation."""
