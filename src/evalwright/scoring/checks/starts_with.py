"""`starts_with`: the output begins with a text."""

from evalwright.scoring.checks.texts import one_text_kind

CHECK = one_text_kind(
    "starts_with",
    "The output begins with this text.",
    finds=str.startswith,
    missing="is not how the output begins",
    cause="format_violation",
    example="starts_with: Dear",
)
