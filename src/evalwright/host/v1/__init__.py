"""Version 1 of the HTTP API: routes, shapes and codes."""
