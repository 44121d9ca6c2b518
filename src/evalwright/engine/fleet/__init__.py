"""Many workers on one PostgreSQL: tasks are due in a queue, and everything else is in the log."""
