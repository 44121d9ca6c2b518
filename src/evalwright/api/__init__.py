"""What `import evalwright` offers: suites, checks, runs, comparisons, baselines."""
