"""The runs of a host: planned, executed, forked, deleted, and as files."""
