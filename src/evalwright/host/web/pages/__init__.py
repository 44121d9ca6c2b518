"""A module for each page, or few that belong together."""
