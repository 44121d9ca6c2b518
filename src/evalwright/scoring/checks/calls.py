"""`calls`, `calls_in_order` and `does_not_call`: which tools the agent called, and how."""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

from evalwright.scoring.checks.base import (
    COUNT,
    AnswerCheck,
    Ask,
    CheckOutcome,
    Examined,
    MadeCall,
    Preparing,
    RefusedCheck,
    calls_not_observed,
    cannot_tell,
    fields,
)
from evalwright.scoring.checks.mismatch import most_in_order
from evalwright.scoring.checks.quotes import named, shown
from evalwright.scoring.checks.subsets import ItemIndex, WantedPart, prepare_subset

_TOOL = {"type": "string", "minLength": 1}
_CALL = {"anyOf": [_TOOL, fields(["tool"], tool=_TOOL, args={"type": "object"})]}
_CALLS = {"type": "array", "minItems": 1, "items": _CALL}


class _WantedCall(NamedTuple):
    tool: str
    args: WantedPart | None = None

    @property
    def asks(self) -> Sequence[Ask]:
        return self.args.asks if self.args is not None else ()

    def is_made_by(self, call: MadeCall, examined: Examined) -> bool:
        if call.tool != self.tool:
            return False
        return self.args is None or self.args.fits(call.args, examined)

    def made(self, examined: Examined) -> list[MadeCall]:
        calls = _calls_of(self.tool, examined)
        if self.args is None:
            return list(calls)
        given = ItemIndex.of(examined.once(_args_of, self.tool), examined)
        return [
            calls[number]
            for number in given.possible(self.args)
            if self.args.fits(calls[number].args, examined)
        ]


class _CallsCheck(AnswerCheck):
    cause = "wrong_tool_choice"

    argument: Any
    wanted: list[_WantedCall]

    @cached_property
    def asks(self) -> Sequence[Ask]:
        return tuple(ask for each in self.wanted for ask in each.asks)


class Calls(_CallsCheck):
    """The agent calls this tool, with at least these `args` (each may be a check): `times`
    times, `at_least` or `at_most` so often; else once or more.
    """

    example = 'calls: {tool: "shop:orders.get", args: {id: A-17}}'
    schema = {
        "anyOf": [
            _TOOL,
            fields(
                ["tool"],
                tool=_TOOL,
                args={"type": "object"},
                times=COUNT,
                at_least=COUNT,
                at_most=COUNT,
            ),
        ]
    }
    main = "tool"

    least: int = 1
    most: int | None = None

    @classmethod
    def of(cls, argument: Any, preparing: Preparing) -> AnswerCheck:
        options = argument if isinstance(argument, dict) else {"tool": argument}
        return cls(argument, [_wanted_call(options, preparing, "$")], *_bounds(options))

    def evaluate(self, examined: Examined) -> CheckOutcome:
        (wanted,), expected, least, most = self.wanted, self.argument, self.least, self.most
        if unobserved := calls_not_observed(examined):
            return cannot_tell(expected, unobserved)
        made = len(wanted.made(examined))
        is_decided = made >= least if most is None else made > most
        if not is_decided and (unknown := _why_unknown([wanted], examined)):
            return cannot_tell(expected, unknown)
        if least <= made and (most is None or made <= most):
            return CheckOutcome(True, 1.0, expected, _shown(examined, brief=True))
        reason = self._reason(made, examined)
        score = made / least if made < least else 0.0
        same_tool = _calls_of(wanted.tool, examined)
        actual = _shown(examined, wanted.tool if same_tool else None)
        return CheckOutcome(False, score, expected, actual, reason)

    def _reason(self, count: int, examined: Examined) -> str:
        (wanted,), least, most = self.wanted, self.least, self.most
        same_tool = _calls_of(wanted.tool, examined)
        if not same_tool:
            others = list(examined.once(_by_tool))
            if others:
                return f"{wanted.tool} is not called; called: {named(others)}"
            is_claimed = examined.coverage.calls == "claimed none"
            claim = ", by the claim `tools: none`" if is_claimed else ""
            return f"{wanted.tool} is not called; no tool is called{claim}"
        if count == 0 and wanted.args is not None:
            why = wanted.args.problem(same_tool[-1].args, examined)
            return f"{wanted.tool} is called with other arguments: {why}"
        if most is not None and count > most:
            said = _times(most) if least == most and least else f"at most {_times(most)}"
        else:
            said = _times(least) if least == most else f"at least {_times(least)}"
        with_args = " with these arguments" if wanted.args else ""
        return f"{wanted.tool} is called {_times(count)}{with_args}, expected {said}"


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


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


class CallsInOrder(_CallsCheck):
    """The agent calls these tools in this order; others may come in between, unless `exact`
    is true.
    """

    example = 'calls_in_order: ["shop:orders.get", "shop:mail.send"]'
    schema = {"anyOf": [_CALLS, fields(["tools"], tools=_CALLS, exact={"type": "boolean"})]}
    main = "tools"

    exact: bool = False

    @classmethod
    def of(cls, argument: Any, preparing: Preparing) -> AnswerCheck:
        has_options = isinstance(argument, dict)
        listed = argument["tools"] if has_options else argument
        place = "$.tools" if has_options else "$"
        wanted = [_wanted_call(each, preparing, f"{place}[{n}]") for n, each in enumerate(listed)]
        return cls(listed, wanted, has_options and argument.get("exact", False))

    def evaluate(self, examined: Examined) -> CheckOutcome:
        wanted, listed = self.wanted, self.argument
        if unobserved := calls_not_observed(examined):
            return cannot_tell(listed, unobserved)
        if self.exact:
            count = _most_in_a_row(wanted, examined)
        else:
            tests = [partial(each.is_made_by, examined=examined) for each in wanted]
            count = most_in_order(tests, examined.calls)
        if count == len(wanted):
            return CheckOutcome(True, 1.0, listed, _shown(examined, brief=True))
        if unknown := _why_unknown(wanted, examined):
            return cannot_tell(listed, unknown)
        tool, made = wanted[count].tool, _called(examined)
        if tool not in made:
            reason = f"{tool} is not called; " + (
                f"called: {named(made)}" if made else "nothing is"
            )
        else:
            after = f" after {wanted[count - 1].tool}" if count else ""
            directly = " directly" if self.exact and count else ""
            reason = f"{tool} is not called{directly}{after} as expected; called: {named(made)}"
        return CheckOutcome(False, count / len(wanted), listed, _shown(examined), reason)


def _most_in_a_row(wanted: Sequence[_WantedCall], examined: Examined) -> int:
    calls, most = examined.calls, 0
    for start in range(len(calls)):
        count = 0
        for each, call in zip(wanted, calls[start : start + len(wanted)], strict=False):
            if not each.is_made_by(call, examined):
                break
            count += 1
        most = max(most, count)
        if most == len(wanted):
            break
    return most


class DoesNotCall(_CallsCheck):
    """The agent does not call this tool, or none of these; `args` narrows it to a call."""

    example = 'does_not_call: "shop:orders.delete"'
    schema = {"anyOf": [*_CALL["anyOf"], _CALLS]}

    @classmethod
    def of(cls, argument: Any, preparing: Preparing) -> AnswerCheck:
        is_list = isinstance(argument, list)
        listed = argument if is_list else [argument]
        wanted = [
            _wanted_call(each, preparing, f"$[{n}]" if is_list else "$")
            for n, each in enumerate(listed)
        ]
        return cls(argument, wanted)

    def evaluate(self, examined: Examined) -> CheckOutcome:
        unwanted, expected = self.wanted, self.argument
        if unobserved := calls_not_observed(examined):
            return cannot_tell(expected, unobserved)
        made = {id(call) for each in unwanted for call in each.made(examined)}
        for number, call in enumerate(examined.calls if made else (), 1):
            if id(call) in made:
                reason = f"{call.tool} is called: call {number} of {len(examined.calls)}"
                actual = shown({"tool": call.tool, "args": call.args})
                return CheckOutcome(False, 0.0, expected, actual, reason)
        if unknown := _why_unknown(unwanted, examined):
            return cannot_tell(expected, unknown)
        return CheckOutcome(True, 1.0, expected, _shown(examined, brief=True))


def _wanted_call(argument: Any, preparing: Preparing, path: str) -> _WantedCall:
    if isinstance(argument, str):
        return _WantedCall(argument)
    if not argument.get("args"):
        return _WantedCall(argument["tool"])
    return _WantedCall(
        argument["tool"], prepare_subset(argument["args"], preparing, f"{path}.args")
    )


def _why_unknown(wanted: Sequence[_WantedCall], examined: Examined) -> str | None:
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


def _called(examined: Examined) -> list[str]:
    return [call.tool for call in examined.calls]


def _calls_of(tool: str, examined: Examined) -> Sequence[MadeCall]:
    return examined.once(_by_tool).get(tool, ())


def _args_of(examined: Examined, tool: str) -> list[Any]:
    return [call.args for call in _calls_of(tool, examined)]


def _by_tool(examined: Examined) -> dict[str, list[MadeCall]]:
    found: dict[str, list[MadeCall]] = {}
    for call in examined.calls:
        found.setdefault(call.tool, []).append(call)
    return found


def _shown(examined: Examined, tool: str | None = None, *, brief: bool = False) -> Any:
    return examined.once(_shown_calls, tool, brief)


def _shown_calls(examined: Examined, tool: str | None, brief: bool) -> Any:  # noqa: FBT001
    if tool is None:
        return shown(_called(examined), brief=brief)
    calls = [{"tool": call.tool, "args": call.args} for call in _calls_of(tool, examined)]
    return shown(calls, brief=brief)
