"""All that is peculiar to version 1 of the wire: routes, shapes and codes."""
