"""Many workers on one PostgreSQL: tasks are due in tables, and everything else is in the log."""
