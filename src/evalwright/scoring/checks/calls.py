"""`calls`: the agent called a tool, with arguments and as often as expected."""

from collections.abc import Callable
from typing import Any, NamedTuple

from evalwright.scoring.checks.base import (
    COUNT,
    Answers,
    Ask,
    CheckKind,
    Examined,
    Look,
    MadeCall,
    Prepared,
    Preparing,
    RefusedCheck,
    calls_not_observed,
    cannot_look,
    fields,
)
from evalwright.scoring.checks.quoting import named, shown
from evalwright.scoring.checks.subsets import prepare_subset

TOOL = {"type": "string", "minLength": 1}
CALL = {"anyOf": [TOOL, fields(["tool"], tool=TOOL, args={"type": "object"})]}


class WantedCall(NamedTuple):
    """A call that is looked for; `problem` says why a call of the tool is not it, or None."""

    tool: str
    problem: Callable[[MadeCall, Examined, Answers], str | None] | None
    asks: tuple[Ask, ...] = ()

    def is_made_by(self, call: MadeCall, examined: Examined, answers: Answers) -> bool:
        """Whether a call is the one."""
        if call.tool != self.tool:
            return False
        return self.problem is None or self.problem(call, examined, answers) is None


def wanted_call(argument: Any, preparing: Preparing, path: str) -> WantedCall:
    """A call from its name, or from an object with its `tool` and `args`."""
    if isinstance(argument, str):
        return WantedCall(argument, None)
    if not argument.get("args"):
        return WantedCall(argument["tool"], None)
    fits, asks = prepare_subset(argument["args"], preparing, f"{path}.args")

    def problem(call: MadeCall, examined: Examined, answers: Answers) -> str | None:
        return fits(call.args, examined, answers)

    return WantedCall(argument["tool"], problem, asks)


def _prepare(argument: Any, preparing: Preparing) -> Prepared:
    options = argument if isinstance(argument, dict) else {"tool": argument}
    wanted = wanted_call(options, preparing, "$")
    least, most = _bounds(options)
    expected = argument

    def look(examined: Examined, answers: Answers) -> Look:
        if unobserved := calls_not_observed(examined):
            return cannot_look(expected, unobserved)
        made = [call for call in examined.calls if wanted.is_made_by(call, examined, answers)]
        if least <= len(made) and (most is None or len(made) <= most):
            return Look(True, 1.0, expected, shown(called(examined), brief=True))
        reason = _reason(wanted, len(made), (least, most), examined, answers)
        score = len(made) / least if len(made) < least else 0.0
        actual = [_written(call) for call in examined.calls if call.tool == wanted.tool]
        return Look(False, score, expected, shown(actual or called(examined)), reason)

    return Prepared("calls", look, wanted.asks)


def _bounds(options: dict[str, Any]) -> tuple[int, int | None]:
    times = options.get("times")
    if times is not None:
        for key in ("at_least", "at_most"):
            if key in options:
                remedy = f"give `times`, or `{key}`"
                raise RefusedCheck(f"`times` says it all: {key} is too much", remedy, f"$.{key}")
        return times, times
    most = options.get("at_most")
    least = options.get("at_least", 1 if most is None else 0)
    if most is not None and least > most:
        raise RefusedCheck("`at_least` is above `at_most`", "swap them", "$.at_least")
    return least, most


def _reason(
    wanted: WantedCall,
    count: int,
    bounds: tuple[int, int | None],
    examined: Examined,
    answers: Answers,
) -> str:
    same_tool = [call for call in examined.calls if call.tool == wanted.tool]
    if not same_tool:
        others = list(dict.fromkeys(called(examined)))
        return f"{wanted.tool} is not called; " + (
            f"called: {named(others)}" if others else "no tool is called"
        )
    if count == 0 and wanted.problem is not None:
        why = wanted.problem(same_tool[-1], examined, answers)
        return f"{wanted.tool} is called with other arguments: {why}"
    least, most = bounds
    if most is not None and count > most:
        said = _times(most) if least == most and least else f"at most {_times(most)}"
    else:
        said = _times(least) if least == most else f"at least {_times(least)}"
    with_args = " with these arguments" if wanted.problem else ""
    return f"{wanted.tool} is called {_times(count)}{with_args}, expected {said}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def called(examined: Examined) -> list[str]:
    """The tools that were called, in order."""
    return [call.tool for call in examined.calls]


def _written(call: MadeCall) -> Any:
    return {"tool": call.tool, "args": call.args}


CHECK = CheckKind(
    name="calls",
    description=(
        "The agent calls this tool, with at least these `args` (each may be a check): `times` "
        "times, `at_least` or `at_most` so often; else once or more."
    ),
    example='calls: {tool: "shop:orders.get", args: {id: A-17}}',
    schema={
        "anyOf": [
            TOOL,
            fields(
                ["tool"],
                tool=TOOL,
                args={"type": "object"},
                times=COUNT,
                at_least=COUNT,
                at_most=COUNT,
            ),
        ]
    },
    prepare=_prepare,
    cause="wrong_tool_choice",
    main="tool",
)
