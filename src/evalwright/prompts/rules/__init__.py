"""Lint rules, one module per theme; `catalogue` holds the table of all."""
