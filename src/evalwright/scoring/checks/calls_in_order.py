"""`calls_in_order`: the agent called tools one after the other."""

from collections.abc import Sequence
from functools import partial
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
    fields,
)
from evalwright.scoring.checks.calls import (
    CALL,
    WantedCall,
    called,
    cannot_tell,
    shown_calls,
    wanted_call,
)
from evalwright.scoring.checks.mismatch import most_in_order
from evalwright.scoring.checks.quotes import named

_CALLS = {"type": "array", "minItems": 1, "items": CALL}


def _prepare(argument: Any, preparing: Preparing) -> Prepared:
    has_options = isinstance(argument, dict)
    listed = argument["tools"] if has_options else argument
    exact = has_options and argument.get("exact", False)
    place = "$.tools" if has_options else "$"
    wanted = [wanted_call(each, preparing, f"{place}[{n}]") for n, each in enumerate(listed)]
    find = _most_in_a_row if exact else _in_order

    def look(examined: Examined, answers: Answers) -> Look:
        if unobserved := calls_not_observed(examined):
            return cannot_look(listed, unobserved)
        count = find(wanted, examined, answers)
        if count == len(wanted):
            return Look(True, 1.0, listed, shown_calls(examined, brief=True))
        if unknown := cannot_tell(wanted, examined):
            return cannot_look(listed, unknown)
        reason = _reason(wanted, count, examined, exact=exact)
        return Look(False, count / len(wanted), listed, shown_calls(examined), reason)

    return Prepared("calls_in_order", look, tuple(ask for each in wanted for ask in each.asks))


def _in_order(wanted: Sequence[WantedCall], examined: Examined, answers: Answers) -> int:
    tests = [partial(each.is_made_by, examined=examined, answers=answers) for each in wanted]
    return most_in_order(tests, examined.calls)


def _most_in_a_row(wanted: Sequence[WantedCall], examined: Examined, answers: Answers) -> int:
    calls, most = examined.calls, 0
    for start in range(len(calls)):
        count = 0
        for each, call in zip(wanted, calls[start : start + len(wanted)], strict=False):
            if not each.is_made_by(call, examined, answers):
                break
            count += 1
        most = max(most, count)
        if most == len(wanted):
            break
    return most


def _reason(wanted: Sequence[WantedCall], count: int, examined: Examined, *, exact: bool) -> str:
    tool = wanted[count].tool
    made = called(examined)
    if tool not in made:
        return f"{tool} is not called; " + (f"called: {named(made)}" if made else "nothing is")
    after = f" after {wanted[count - 1].tool}" if count else ""
    directly = " directly" if exact and count else ""
    return f"{tool} is not called{directly}{after} as expected; called: {named(made)}"


CHECK = CheckKind(
    name="calls_in_order",
    description=(
        "The agent calls these tools in this order; others may come in between, "
        "unless `exact` is true."
    ),
    example='calls_in_order: ["shop:orders.get", "shop:mail.send"]',
    schema={"anyOf": [_CALLS, fields(["tools"], tools=_CALLS, exact={"type": "boolean"})]},
    prepare=_prepare,
    cause="wrong_tool_choice",
    main="tools",
)
