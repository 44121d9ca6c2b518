"""The one trace model: what an agent did in one case, however it was recorded."""
