"""LLM providers behind one protocol: retries, rate limits, prices, cassettes."""
