"""Recorded traffic of any size: cut into shards, read on many cores, joined in order."""
