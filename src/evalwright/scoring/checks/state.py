"""`state`: what the agent left in the world of its task."""

from typing import Any

from evalwright.contracts.jsonvalue import json_equal
from evalwright.scoring.checks.base import (
    AnswerCheck,
    CheckOutcome,
    Examined,
    Preparing,
    cannot_tell,
)
from evalwright.scoring.checks.json_ import Json
from evalwright.scoring.checks.json_paths import ABSENT, value_at

NO_WORLD = "the task has no world, or what became of it was not recorded"
_ITSELF = ("changed", "unchanged")


class State(Json):
    """The world of the task, as the agent left it: what is at `path` ($.refunds[0].order)
    `equals` a value, fits a JSON `schema`, has a `subset`, or meets any other check named here;
    it is `changed` or `unchanged` since the beginning.
    """

    example = "state: {path: $.refunds, equals: []}"
    schema = {
        "anyOf": [
            {"enum": [*_ITSELF]},
            {
                "type": "object",
                "minProperties": 1,
                "properties": {
                    "path": {"type": "string"},
                    "schema": {"type": ["object", "boolean"]},
                    "subset": {},
                    "equals": {},
                    "changed": {"type": "boolean"},
                    "unchanged": {"type": "boolean"},
                },
            },
        ]
    }
    own = ("path", "schema", "subset", "equals", *_ITSELF)
    subject = "the world"
    form = "wrong_answer"

    @classmethod
    def of(cls, argument: Any, preparing: Preparing) -> AnswerCheck:
        return super().of({argument: True} if isinstance(argument, str) else argument, preparing)

    def evaluate(self, examined: Examined) -> CheckOutcome:
        if examined.world is None:
            return cannot_tell(self.expected, NO_WORLD)
        before = examined.world.before
        if (first := next(iter(self.parts), None)) is not None and first not in before:
            known = ", ".join(before) or "none"
            why = f"the world has no collection {first!r}; there are: {known}"
            return cannot_tell(self.expected, why)
        found = super().evaluate(examined.part(_end))
        wanted = [
            self.argument[each] == (each == "changed") for each in _ITSELF if each in self.argument
        ]
        if not found.passed or not wanted:
            return found
        was, now = (value_at(each, self.parts)[0] for each in (before, examined.world.after))
        has_changed = was is ABSENT or not json_equal(was, now)
        if wanted == [has_changed] * len(wanted):
            return found
        reason = f"{self.argument.get('path', '$')} " + (
            "has changed" if has_changed else "is as it was"
        )
        return CheckOutcome(False, 0.0, self.expected, found.actual, reason)


def _end(examined: Examined) -> Any:
    assert examined.world is not None
    return examined.world.after
