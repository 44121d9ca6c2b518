"""What `evalwright prompts` does between parsing its options and its exit code."""
