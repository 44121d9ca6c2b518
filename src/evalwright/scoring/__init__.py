"""Pure: outputs and verdicts to scores, scores to a summary."""
