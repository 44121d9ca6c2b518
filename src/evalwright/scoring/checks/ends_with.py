"""`ends_with`: the output ends with a text."""

from evalwright.scoring.checks.texts import one_text_kind

CHECK = one_text_kind(
    "ends_with",
    "The output ends with this text.",
    finds=str.endswith,
    missing="is not how the output ends",
    cause="format_violation",
    example="ends_with: regards",
)
