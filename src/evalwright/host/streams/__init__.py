"""Live events of runs, and what many streams share."""
