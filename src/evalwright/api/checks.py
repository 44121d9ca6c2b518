"""Every check of a suite file as a function, under the same name and with the same options.

Four names that Python has for itself are others here: `not_`, `any_of`, `all_of`, and `at_most` for
`max`. A `weight` says how much a check counts in the score of its task.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from evalwright.api.check_objects import (
    NOT_GIVEN,
    Check,
    CheckGiven,
    OwnFunction,
    as_check,
)
from evalwright.contracts.errors import BadInput

Text: TypeAlias = str | int | float | bool
Call: TypeAlias = str | Mapping[str, Any] | Check


def equals(value: Any, *, ignore_case: bool = False, weight: float | None = None) -> Check:
    """The output is exactly this text or value; data is compared as JSON."""
    is_like_options = isinstance(value, Mapping) and "value" in value
    return _check("equals", "value", value, weight, is_like_options, ignore_case=ignore_case)


def contains(value: Text, *, ignore_case: bool = False, weight: float | None = None) -> Check:
    """The output contains this text; an output that is not a text counts as its JSON."""
    return _check("contains", "value", value, weight, ignore_case=ignore_case)


def contains_any(
    *values: Text | Sequence[Text], ignore_case: bool = False, weight: float | None = None
) -> Check:
    """The output contains at least one of these texts."""
    return _check("contains_any", "value", _listed(values), weight, ignore_case=ignore_case)


def contains_all(
    *values: Text | Sequence[Text], ignore_case: bool = False, weight: float | None = None
) -> Check:
    """The output contains all of these texts; the score is the share that it contains."""
    return _check("contains_all", "value", _listed(values), weight, ignore_case=ignore_case)


def starts_with(value: Text, *, ignore_case: bool = False, weight: float | None = None) -> Check:
    """The output begins with this text."""
    return _check("starts_with", "value", value, weight, ignore_case=ignore_case)


def ends_with(value: Text, *, ignore_case: bool = False, weight: float | None = None) -> Check:
    """The output ends with this text."""
    return _check("ends_with", "value", value, weight, ignore_case=ignore_case)


def regex(
    pattern: str, *, ignore_case: bool = False, full: bool = False, weight: float | None = None
) -> Check:
    """A pattern of RE2 is found in the output; with `full` it is all of it."""
    return _check("regex", "pattern", pattern, weight, ignore_case=ignore_case, full=full)


def not_(check: CheckGiven, *, weight: float | None = None) -> Check:
    """This check does not pass. One that could not be made does not pass here either."""
    return Check("not", as_check(check), weight=weight)


def number(
    value: float | str | None = None,
    *,
    within: float | str | None = None,
    between: Sequence[float | str] | None = None,
    which: Literal["any", "last", "first", "only"] | None = None,
    weight: float | None = None,
) -> Check:
    """The output is or names a number that is `within` a distance of `value`, or `between` two.

    A distance is a number, or a share such as `"5%"`. Of several numbers in a text, `value` takes
    any that fits and `between` the last; `which` chooses another.
    """
    if value is None and between is None:
        raise BadInput("ew.number: give a value, or between=[low, high]")
    if value is None:
        return _check("number", "between", between, weight, True, within=within, which=which)
    options = {"between": between, "within": within, "which": which}
    return _check("number", "value", value, weight, **options)


def json(
    path: str | None = None,
    *checks: CheckGiven,
    equals: Any = NOT_GIVEN,
    subset: Any = NOT_GIVEN,
    schema: Mapping[str, Any] | bool = NOT_GIVEN,
    valid: bool = NOT_GIVEN,
    strict: bool = False,
    weight: float | None = None,
) -> Check:
    """The output is JSON, and what is at `path` (`$.a[0].b`) is as expected.

    It `equals` a value, has a `subset`, fits a JSON `schema`, or passes other `checks`. Without
    any of these the output must be JSON, as a whole or in a Markdown fence; `strict` allows nothing
    around it. In a `subset`, values may be checks.
    """
    given = {"equals": equals, "subset": subset, "schema": schema, "valid": valid}
    options = {
        **_chosen(path=path, strict=strict),
        **{name: value for name, value in given.items() if value is not NOT_GIVEN},
    }
    return Check("json", _with_checks(options, checks) or {"valid": True}, weight=weight)


def _with_checks(options: dict[str, Any], checks: Iterable[CheckGiven]) -> dict[str, Any]:
    for each in checks:
        found = as_check(each).document
        if len(found) > 1 or found.keys() & options.keys():
            found = {"all": [found, *options.pop("all", [])]}
        options |= found
    return options


def state(
    path: str | None = None,
    *checks: CheckGiven,
    equals: Any = NOT_GIVEN,
    subset: Any = NOT_GIVEN,
    schema: Mapping[str, Any] | bool = NOT_GIVEN,
    changed: bool = False,
    unchanged: bool = False,
    weight: float | None = None,
) -> Check:
    """What the agent left in the world of its task: what is at `path` (`$.refunds`) is as expected.

    It `equals` a value, has a `subset`, fits a JSON `schema`, passes other `checks`, or is
    `changed` or `unchanged` since the beginning.
    """
    given = {"equals": equals, "subset": subset, "schema": schema}
    options = {
        **_chosen(path=path, changed=changed, unchanged=unchanged),
        **{name: value for name, value in given.items() if value is not NOT_GIVEN},
    }
    return Check("state", _with_checks(options, checks), weight=weight)


def calls(
    tool: str,
    *,
    args: Mapping[str, Any] | None = None,
    times: int | None = None,
    at_least: int | None = None,
    at_most: int | None = None,
    weight: float | None = None,
) -> Check:
    """The agent calls this tool, with at least these `args`, of which each value may be a check.

    It does so `times` times, `at_least` or `at_most` so often; else once or more.
    """
    options = {"args": args, "times": times, "at_least": at_least, "at_most": at_most}
    return _check("calls", "tool", tool, weight, **options)


def calls_in_order(
    *tools: Call | Sequence[Call], exact: bool = False, weight: float | None = None
) -> Check:
    """The agent calls these tools in this order; `exact` allows no others in between.

    A call may also be `ew.calls(tool, args=…)`.
    """
    wanted = [_call(each) for each in _listed(tools, always=True)]
    return _check("calls_in_order", "tools", wanted, weight, exact=exact)


def does_not_call(
    *tools: Call | Sequence[Call],
    args: Mapping[str, Any] | None = None,
    weight: float | None = None,
) -> Check:
    """The agent does not call this tool, or none of these; `args` narrows it to certain calls."""
    unwanted = [_call(each) for each in _listed(tools, always=True)]
    if args is not None:
        unwanted = [{"tool": each, "args": args} for each in unwanted]
    return Check("does_not_call", unwanted[0] if len(unwanted) == 1 else unwanted, weight=weight)


def at_most(
    *,
    cost_usd: float | None = None,
    latency_ms: float | None = None,
    turns: int | None = None,
    tokens: int | None = None,
    weight: float | None = None,
) -> Check:
    """The answer takes at most this much. All but the time must have been observed."""
    limits = _chosen(cost_usd=cost_usd, latency_ms=latency_ms, turns=turns, tokens=tokens)
    return Check("max", limits, weight=weight)


def max_turns(count: int, *, weight: float | None = None) -> Check:
    """The conversation has at most so many turns of the user: `ew.at_most(turns=…)`."""
    return at_most(turns=count, weight=weight)


def similar(
    to: str | float,
    *,
    at_least: float | None = None,
    by: Literal["lexical", "rouge_l", "edit", "embedding"] | None = None,
    weight: float | None = None,
) -> Check:
    """The output is similar to this text, with a score of `at_least` 0.7 unless said otherwise.

    By words and letters, without a model; `by="embedding"` asks one.
    """
    return _check("similar", "to", to, weight, at_least=at_least, by=by)


def judge(
    *criteria: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
    at_least: float | None = None,
    weight: float | None = None,
) -> Check:
    """Judges hold these statements about the output true.

    Each may have a weight: `{"criterion": "states the carrier", "weight": 2}`. The score is the
    weight of those that hold; all must hold unless `at_least` says otherwise.
    """
    return _check("judge", "criteria", _listed(criteria), weight, at_least=at_least)


def judge_against(
    reference: Any = None,
    *,
    as_: Literal["factuality", "closed_qa", "relevance", "grounded_in"] | None = None,
    grounded_in: Any = None,
    at_least: float | None = None,
    weight: float | None = None,
) -> Check:
    """Judges compare the output with a `reference`, or with the task's `expected`.

    They do so as to factuality, unless `as_` names another kind; or the output must be
    `grounded_in` the documents that the agent retrieved (True), or in given ones.
    """
    options = _chosen(reference=reference, grounded_in=grounded_in, at_least=at_least)
    return Check("judge_against", {**options, **_chosen(**{"as": as_})}, weight=weight)


def no_signals(*names: str | Sequence[str], weight: float | None = None) -> Check:
    """Nothing that the agent did is a security signal of these kinds, or of a severity or worse.

    Severities are low, medium, high and critical. Without a name, none at all is allowed.
    """
    return Check("no_signals", _listed(names) if names else "low", weight=weight)


def python(
    function: str | OwnFunction, *, at_least: float | None = None, weight: float | None = None
) -> Check:
    """A function of your own decides, itself or by its name: `checks.py:is_polite`.

    It returns true, a score that passes at 1 or `at_least`, or a result; see `check`.
    """
    if isinstance(function, str):
        return _check("python", "function", function, weight, at_least=at_least)
    as_check(function)
    return Check("python", _chosen(at_least=at_least), weight=weight, function=function)


def any_of(*checks: CheckGiven | Sequence[CheckGiven], weight: float | None = None) -> Check:
    """At least one of these checks passes; the score is that of the best."""
    return Check("any", _checks(checks), weight=weight)


def all_of(*checks: CheckGiven | Sequence[CheckGiven], weight: float | None = None) -> Check:
    """All of these checks pass; the score is their mean, by weight."""
    return Check("all", _checks(checks), weight=weight)


def at_least(n: int, of: Sequence[CheckGiven], *, weight: float | None = None) -> Check:
    """At least `n` of these checks pass."""
    return Check("at_least", {"n": n, "of": _checks([of])}, weight=weight)


if not TYPE_CHECKING:  # or any name would do

    def __getattr__(name: str) -> Callable[..., Check]:
        """A check of the table that has no function above: its fields are the parameters."""
        from evalwright.scoring.checks.table import CHECKS

        if name.startswith("_") or name not in CHECKS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        kind = CHECKS[name]
        given = [field for field in msgspec.structs.fields(kind) if field.name != "weight"]
        main, *others = [
            Parameter(
                field.name,
                Parameter.KEYWORD_ONLY if place else Parameter.POSITIONAL_OR_KEYWORD,
                default=Parameter.empty if field.required else None,
            )
            for place, field in enumerate(given)
        ]
        weight = Parameter("weight", Parameter.KEYWORD_ONLY, default=None)
        signature = Signature([main, *others, weight])

        def make(*values: Any, **options: Any) -> Check:
            chosen = signature.bind(*values, **options).arguments
            value, counts = chosen.pop(main.name), chosen.pop("weight", None)
            return _check(name, main.name, value, counts, **chosen)

        make.__name__, make.__doc__, make.__signature__ = name, kind.description, signature
        globals()[name] = make
        return make


def _check(
    name: str,
    main: str,
    value: Any,
    weight: float | None,
    spelled_out: bool = False,  # noqa: FBT001, FBT002
    /,
    **options: Any,
) -> Check:
    """A check in its short form where it has no options, as people write it in files."""
    chosen = _chosen(**options)
    argument = {main: value, **chosen} if chosen or spelled_out else value
    return Check(name, argument, weight=weight)


def _chosen(**options: Any) -> dict[str, Any]:
    return {
        name: value for name, value in options.items() if value is not None and value is not False
    }


def _listed(values: Sequence[Any], *, always: bool = False) -> Any:
    """What was given one by one or as a list; one alone as it is."""
    if len(values) == 1 and isinstance(values[0], list | tuple):
        return list(values[0])
    return values[0] if len(values) == 1 and not always else list(values)


def _checks(given: Sequence[Any]) -> list[Check]:
    return [as_check(each) for each in _listed(given, always=True)]


def _call(given: Call) -> Any:
    if not isinstance(given, Check):
        return given
    if given.name != "calls":
        raise BadInput(f"{given!r} is no call; write ew.calls(tool, args=…)")
    return given.document["calls"]
