"""`contains`: a text is somewhere in the output."""

from typing import Any

from evalwright.contracts.jsonvalue import stringify
from evalwright.scoring.checks.base import (
    Answers,
    CheckKind,
    Examined,
    Look,
    Nested,
    Prepared,
    holds,
)


def _prepare(argument: Any, _nested: Nested) -> Prepared:
    wanted, ignore_case = (
        (argument["value"], argument.get("ignore_case", False))
        if isinstance(argument, dict)
        else (argument, False)
    )
    text = stringify(wanted)
    sought = text.casefold() if ignore_case else text

    def look(examined: Examined, _answers: Answers) -> Look:
        output = stringify(examined.output)
        found = sought in (output.casefold() if ignore_case else output)
        return holds(found, wanted, examined.output, "the text is not in the output")

    return Prepared("contains", look)


CHECK = CheckKind(
    "contains",
    {
        "anyOf": [
            {"type": ["string", "number", "boolean"]},
            {
                "type": "object",
                "required": ["value"],
                "properties": {"value": True, "ignore_case": {"type": "boolean"}},
                "additionalProperties": False,
            },
        ]
    },
    _prepare,
)
