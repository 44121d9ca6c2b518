"""Packs: agents with their prompts, schemas and suites in one archive; built, verified, opened."""
