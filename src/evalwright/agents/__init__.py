"""Ways to invoke a subject: Python callable, HTTP endpoint, command; fixtures and memory."""
