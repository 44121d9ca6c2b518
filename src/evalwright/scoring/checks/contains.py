"""`contains`: a text is somewhere in the output."""

from operator import contains

from evalwright.scoring.checks.texts import one_text_kind

CHECK = one_text_kind(
    "contains",
    "The output contains this text; an output that is not a text counts as its JSON.",
    finds=contains,
    missing="is not in the output",
    cause="wrong_answer",
    example="contains: shipped",
)
