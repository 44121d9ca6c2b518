"""G-Eval: steps, questions, scores weighted by token probabilities, and the judgement."""
