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
        got = examined.text
        if (got.casefold() if ignore_case else got) == sought or _is_same(output, value):
            return Look(True, 1.0, shown(value, brief=True), shown(output, brief=True))
        return _difference(output, got, value, text)

    return Prepared("equals", look)


def _is_same(output: Any, value: Any) -> bool:
    if isinstance(value, str):
        return False  # texts have been compared
    if isinstance(output, str):
        try:
            output = parse(output)
        except NotJson:
            return False
    return json_equal(output, value)


def _difference(output: Any, got: str, value: Any, text: str) -> Look:
    if isinstance(output, dict | list) and isinstance(value, dict | list):
        return Look(False, 0.0, shown(value), shown(output), first_difference(output, value) or "")
    reason, place = text_difference(got, text)
    is_text = isinstance(output, str)
    actual = shown_around(got, place) if is_text else shown(output)
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
