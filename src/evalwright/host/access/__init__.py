"""Who may do what, how much of it, and where to connections may go."""
