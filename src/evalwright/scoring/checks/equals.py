"""`equals`: the output is a given text or value."""

from typing import Any

from evalwright.contracts.jsonvalue import NotJson, json_equal, parse, stringify
from evalwright.scoring.checks.base import Answers, CheckKind, Examined, Look, Prepared, Preparing
from evalwright.scoring.checks.comparing import first_difference, text_difference
from evalwright.scoring.checks.quoting import shown, shown_around
from evalwright.scoring.checks.texts import text_argument

_OPTIONS = frozenset({"value", "ignore_case"})


def _prepare(argument: Any, _preparing: Preparing) -> Prepared:
    has_options = isinstance(argument, dict) and "value" in argument and argument.keys() <= _OPTIONS
    value, ignore_case = text_argument(argument) if has_options else (argument, False)
    text = stringify(value)
    sought = text.casefold() if ignore_case else text

    def look(examined: Examined, _answers: Answers) -> Look:
        output = examined.output
        got = "null" if output is None else examined.text  # no answer is not the empty text
        if (got.casefold() if ignore_case else got) == sought:
            return Look(True, 1.0, shown(value, brief=True), shown(output, brief=True))
        read = output if isinstance(value, str) else _read(output)
        if not isinstance(value, str) and json_equal(read, value):  # texts have been compared
            return Look(True, 1.0, shown(value, brief=True), shown(output, brief=True))
        if isinstance(read, dict | list) and isinstance(value, dict | list):
            reason = first_difference(read, value) or ""
            return Look(False, 0.0, shown(value), shown(output), reason)
        return _difference(output, got, value, text)

    return Prepared("equals", look)


def _read(output: Any) -> Any:
    """The data that a text of JSON holds; anything else as it is."""
    try:
        return parse(output) if isinstance(output, str) else output
    except NotJson:
        return output


def _difference(output: Any, got: str, value: Any, text: str) -> Look:
    reason, place = text_difference(got, text)
    actual = shown_around(got, place) if isinstance(output, str) else shown(output)
    expected = shown_around(text, place) if isinstance(value, str) else shown(value)
    return Look(False, 0.0, expected, actual, reason)


CHECK = CheckKind(
    name="equals",
    description=(
        "The output is exactly this text or value. Numbers, lists and objects are compared as "
        "JSON, also with an output that is a text of JSON."
    ),
    example="equals: Paris",
    schema={},
    prepare=_prepare,
    cause="missing_required_data",
    main="value",
)
