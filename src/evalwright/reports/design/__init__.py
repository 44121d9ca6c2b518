"""The design system: tokens, parts, icons and behaviour that pages and reports share."""
