"""A comparison as other tools read it: JUnit, SARIF, Markdown."""
