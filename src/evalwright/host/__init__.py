"""The HTTP host: evaluations for many tenants, over the engine and store of the command line."""
