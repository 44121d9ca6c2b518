"""The log in a SQLite file, and what keeps the file whole."""
