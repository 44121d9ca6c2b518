"""Wire shapes, one module per contract, with their JSON Schemas, and the tree of errors."""
