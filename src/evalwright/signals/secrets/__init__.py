"""Secrets in bytes: by the format of their tokens, or by what stands around them."""
