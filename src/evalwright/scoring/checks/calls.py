"""`calls`: the agent called a tool, with arguments and as often as expected."""

from collections.abc import Sequence
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
from evalwright.scoring.checks.quotes import named, shown
from evalwright.scoring.checks.subsets import ItemIndex, WantedPart, prepare_subset

TOOL = {"type": "string", "minLength": 1}
CALL = {"anyOf": [TOOL, fields(["tool"], tool=TOOL, args={"type": "object"})]}


class WantedCall(NamedTuple):
    """A call that is looked for, with these arguments or any."""

    tool: str
    args: WantedPart | None = None

    @property
    def asks(self) -> Sequence[Ask]:
        """What must be asked before it can be told."""
        return self.args.asks if self.args is not None else ()

    def is_made_by(self, call: MadeCall, examined: Examined, answers: Answers) -> bool:
        """Whether a call is the one."""
        if call.tool != self.tool:
            return False
        return self.args is None or self.args.fits(call.args, examined, answers)

    def made(self, examined: Examined, answers: Answers) -> list[MadeCall]:
        """The calls that are the one, in order."""
        calls = calls_of(self.tool, examined)
        if self.args is None:
            return list(calls)
        given = ItemIndex.of(examined.once(_args_of, self.tool), examined)
        return [
            calls[number]
            for number in given.possible(self.args)
            if self.args.fits(calls[number].args, examined, answers)
        ]


def cannot_tell(wanted: Sequence[WantedCall], examined: Examined) -> str | None:
    """Why nobody can say whether one of these calls was made, where that is not plainly so.

    Libraries may know a tool by another spelling, and spans may hold no arguments.
    """
    if not examined.calls:
        return None
    by_tool = examined.once(_by_tool)
    for each in wanted:
        if each.tool not in by_tool:
            for tool in by_tool:
                if _letters(tool) == _letters(each.tool):
                    return f"{tool} is called: if that is {each.tool}, write its name like this"
        elif each.args is not None:
            calls = by_tool[each.tool]
            if any(not isinstance(call.args, dict) for call in calls):
                arguments = f"with which arguments {each.tool} is called was not observed"
                return f"{arguments}: return or record them, or let spans hold content"
    return None


def _letters(tool: str) -> str:
    """A name without what spellings of it differ in; one of signs alone is as it is."""
    return "".join(filter(str.isalnum, tool.casefold())) or tool


def wanted_call(argument: Any, preparing: Preparing, path: str) -> WantedCall:
    """A call from its name, or from an object with its `tool` and `args`."""
    if isinstance(argument, str):
        return WantedCall(argument)
    if not argument.get("args"):
        return WantedCall(argument["tool"])
    return WantedCall(argument["tool"], prepare_subset(argument["args"], preparing, f"{path}.args"))


def _prepare(argument: Any, preparing: Preparing) -> Prepared:
    options = argument if isinstance(argument, dict) else {"tool": argument}
    wanted = wanted_call(options, preparing, "$")
    least, most = _bounds(options)
    expected = argument

    def look(examined: Examined, answers: Answers) -> Look:
        if unobserved := calls_not_observed(examined):
            return cannot_look(expected, unobserved)
        same_tool = calls_of(wanted.tool, examined)
        made = wanted.made(examined, answers)
        is_decided = len(made) >= least if most is None else len(made) > most
        if not is_decided and (unknown := cannot_tell([wanted], examined)):
            return cannot_look(expected, unknown)
        if least <= len(made) and (most is None or len(made) <= most):
            return Look(True, 1.0, expected, shown_calls(examined, brief=True))
        reason = _reason(wanted, len(made), (least, most), examined, answers)
        score = len(made) / least if len(made) < least else 0.0
        actual = shown_calls(examined, wanted.tool) if same_tool else shown_calls(examined)
        return Look(False, score, expected, actual, reason)

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
    same_tool = calls_of(wanted.tool, examined)
    if not same_tool:
        others = list(examined.once(_by_tool))
        if others:
            return f"{wanted.tool} is not called; called: {named(others)}"
        claim = ", by the claim `tools: none`" if examined.coverage.calls == "claimed none" else ""
        return f"{wanted.tool} is not called; no tool is called{claim}"
    if count == 0 and wanted.args is not None:
        why = wanted.args.problem(same_tool[-1].args, examined, answers)
        return f"{wanted.tool} is called with other arguments: {why}"
    least, most = bounds
    if most is not None and count > most:
        said = _times(most) if least == most and least else f"at most {_times(most)}"
    else:
        said = _times(least) if least == most else f"at least {_times(least)}"
    with_args = " with these arguments" if wanted.args else ""
    return f"{wanted.tool} is called {_times(count)}{with_args}, expected {said}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def called(examined: Examined) -> list[str]:
    """The tools that were called, in order."""
    return [call.tool for call in examined.calls]


def calls_of(tool: str, examined: Examined) -> Sequence[MadeCall]:
    """The calls of a tool, in order."""
    return examined.once(_by_tool).get(tool, ())


def _args_of(examined: Examined, tool: str) -> list[Any]:
    return [call.args for call in calls_of(tool, examined)]


def _by_tool(examined: Examined) -> dict[str, list[MadeCall]]:
    found: dict[str, list[MadeCall]] = {}
    for call in examined.calls:
        found.setdefault(call.tool, []).append(call)
    return found


def shown_calls(examined: Examined, tool: str | None = None, *, brief: bool = False) -> Any:
    """The tools that were called as a result carries them; of one tool with the arguments."""
    return examined.once(_shown_calls, tool, brief)


def _shown_calls(examined: Examined, tool: str | None, brief: bool) -> Any:  # noqa: FBT001
    if tool is None:
        return shown(called(examined), brief=brief)
    calls = [{"tool": call.tool, "args": call.args} for call in calls_of(tool, examined)]
    return shown(calls, brief=brief)


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
