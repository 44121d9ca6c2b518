"""Projections for people and tools: scorecard on the console, JUnit XML."""
