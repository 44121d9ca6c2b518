"""Python agents in processes of their own: what they do to their process is not done to the run."""
