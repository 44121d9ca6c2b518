"""Injected instructions: found in untrusted text, and obeyed by the agent."""
