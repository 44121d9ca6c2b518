"""Prompt files to results: discovery, parsing, lint rules, judges."""
