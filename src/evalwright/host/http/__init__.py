"""HTTP: the application, its routes and settings, and the server."""
