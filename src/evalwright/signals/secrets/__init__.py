"""Secrets in bytes: by the format of their tokens, or by the text around them."""
