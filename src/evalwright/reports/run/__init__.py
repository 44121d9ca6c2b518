"""A run as people and tools read it: scorecard on the console, JUnit."""
