"""`does_not_call`: the agent left a tool, or a call with certain arguments, alone."""

from typing import Any

from evalwright.scoring.checks.base import (
    Answers,
    CheckKind,
    Examined,
    Look,
    Prepared,
    Preparing,
    calls_not_observed,
    cannot_look,
)
from evalwright.scoring.checks.calls import CALL, cannot_tell, shown_calls, wanted_call
from evalwright.scoring.checks.quotes import shown


def _prepare(argument: Any, preparing: Preparing) -> Prepared:
    listed = argument if isinstance(argument, list) else [argument]
    unwanted = [
        wanted_call(each, preparing, f"$[{n}]" if isinstance(argument, list) else "$")
        for n, each in enumerate(listed)
    ]

    def look(examined: Examined, answers: Answers) -> Look:
        if unobserved := calls_not_observed(examined):
            return cannot_look(argument, unobserved)
        made = {id(call) for each in unwanted for call in each.made(examined, answers)}
        for number, call in enumerate(examined.calls if made else (), 1):
            if id(call) in made:
                reason = f"{call.tool} is called: call {number} of {len(examined.calls)}"
                actual = shown({"tool": call.tool, "args": call.args})
                return Look(False, 0.0, argument, actual, reason)
        if unknown := cannot_tell(unwanted, examined):
            return cannot_look(argument, unknown)
        return Look(True, 1.0, argument, shown_calls(examined, brief=True))

    return Prepared("does_not_call", look, tuple(ask for each in unwanted for ask in each.asks))


CHECK = CheckKind(
    name="does_not_call",
    description="The agent does not call this tool, or none of these; `args` narrows it to a call.",
    example='does_not_call: "shop:orders.delete"',
    schema={"anyOf": [*CALL["anyOf"], {"type": "array", "minItems": 1, "items": CALL}]},
    prepare=_prepare,
    cause="wrong_tool_choice",
)
