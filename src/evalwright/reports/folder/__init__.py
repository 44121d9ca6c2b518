"""The portable report: one folder that opens anywhere."""
