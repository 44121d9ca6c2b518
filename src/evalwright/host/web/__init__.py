"""The pages: what people see of a host, or of a local log, in a browser."""
