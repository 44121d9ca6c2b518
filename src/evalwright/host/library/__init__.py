"""What tenants keep on a host: suites, agents, prompts, annotations; and comparisons of runs."""
