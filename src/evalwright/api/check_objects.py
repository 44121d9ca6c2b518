"""Checks as objects: what the functions of `checks` make, and functions of the user's own."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar, overload

import msgspec

from evalwright.agents.user_code import file_of, named_part
from evalwright.contracts.errors import BadInput
from evalwright.engine.own_checks import Unusable, wanted_facts
from evalwright.scoring.checks.table import CHECKS, prepare_checks

OwnFunction: TypeAlias = Callable[..., Any]
Refer = Callable[[OwnFunction], str]
F = TypeVar("F", bound=OwnFunction)

NOT_GIVEN: Any = msgspec.UNSET  # where None is a value
# Names that Python has for itself.
SPELLED = {"not": "not_", "any": "any_of", "all": "all_of", "max": "at_most"}
_OPTIONS = "__evalwright_check__"
_IN_BETWEEN = re.compile(r"<\w+>\.")  # <locals>, <listcomp>
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_.]|^(?=[0-9])")
_ANYWHERE = "own.py:check"  # in place of a reference, where only the form matters


class Check:
    """What a good answer is: one check, as `ew.contains("shipped")` makes it.

    `document` is the same check as a suite file has it: `{"contains": "shipped"}`.
    """

    def __init__(
        self,
        name: str,
        argument: Any,
        *,
        weight: float | None = None,
        function: OwnFunction | None = None,
    ) -> None:
        self.name = name
        self._argument = argument
        self._weight = weight
        self._function = function
        # Refuse at once what can be known to be wrong, where the user wrote it.
        document = self.written(lambda _function: _ANYWHERE)
        try:
            text = msgspec.json.encode(document)
        except (TypeError, ValueError, RecursionError) as error:
            raise BadInput(f"{self._call}: not a value that JSON can carry: {error}") from None
        if b"{{" in text or b"{%" in text:
            return  # a template, which has its value only with a task
        for problem in prepare_checks([msgspec.json.decode(text)], "$")[1]:
            place = problem.path.removeprefix("$[0]").removeprefix(f".{self.name}").lstrip(".")
            where = f"{self._call}, {place}" if place else self._call
            is_of_files = str(problem.remedy).startswith("write it as `")
            remedy = f" ({problem.remedy})" if problem.remedy and not is_of_files else ""
            raise BadInput(f"{where}: {problem.message}{remedy}")

    @property
    def document(self) -> dict[str, Any]:
        """The check as a suite file has it."""
        return self.written(OwnFunctions().refer)

    def written(self, refer: Refer) -> dict[str, Any]:
        """The check as a document; `refer` says what own functions in it are called."""
        argument = _written(self._argument, refer)
        if self._function is not None:
            function = refer(self._function)
            argument = {"function": function, **argument} if argument else function
        weight = {} if self._weight is None else {"weight": self._weight}
        return {self.name: argument, **weight}

    @property
    def _call(self) -> str:
        return f"ew.{SPELLED.get(self.name, self.name)}"

    def __repr__(self) -> str:
        return f"{self._call}({msgspec.json.encode(self.document[self.name]).decode()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Check) and self.document == other.document

    def __hash__(self) -> int:
        return hash(msgspec.json.encode(self.document))


CheckGiven: TypeAlias = Check | Mapping[str, Any] | OwnFunction


def _written(value: Any, refer: Refer) -> Any:
    if isinstance(value, Check):
        return value.written(refer)
    if isinstance(value, Mapping):
        return {key: _written(each, refer) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_written(each, refer) for each in value]
    return value


def as_check(given: Any) -> Check:
    """A check from whatever may stand for one; raises `BadInput` for anything else."""
    if isinstance(given, Check):
        return given
    if isinstance(given, Mapping):
        known = [key for key in given if key in CHECKS]
        if len(known) == 1 and given.keys() <= {known[0], "weight"}:
            return Check(known[0], given[known[0]], weight=given.get("weight"))
        return _WholeCheck(dict(given))
    if not callable(given) or inspect.isclass(given):
        told = f"; write ew.contains({given!r})" if isinstance(given, str) else ""
        names = "a check of ew, a function of your own, or a dictionary as suite files have it"
        raise BadInput(f"{given!r:.100} is not a check{told or f': it is {names}'}")
    return _own_check(given, getattr(given, _OPTIONS, _OwnOptions()))


def _own_check(function: OwnFunction, options: "_OwnOptions") -> Check:
    name = _function_name(function)
    if getattr(function, "__module__", None) == "evalwright.api.checks":
        raise BadInput(f"ew.{name} makes a check when it is called; write ew.{name}(…)")
    try:
        wanted_facts(function, name)
    except Unusable as unusable:
        raise BadInput(f"{unusable.message} ({unusable.remedy})") from None
    fields = {} if options.at_least is None else {"at_least": options.at_least}
    return Check("python", fields, weight=options.weight, function=function)


def as_checks(given: Iterable[Any], place: str) -> list[Check]:
    """Checks from whatever may stand for them; `place` is for messages."""
    is_one = isinstance(given, Check | Mapping | str) or callable(given)
    if is_one or not isinstance(given, Iterable):
        raise BadInput(f"{place}: checks are a list: checks=[{_named(given)}]")
    found = []
    for index, each in enumerate(given):
        try:
            found.append(as_check(each))
        except BadInput as error:
            raise BadInput(f"{place}, checks[{index}]: {error}") from None
    return found


def _named(given: Any) -> str:
    return getattr(given, "__name__", None) or f"{given!r:.60}"


class _WholeCheck(Check):
    """A document that is kept as it is written: with fields beside the name, or wrong."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        super().__init__(next((key for key in document if key in CHECKS), "check"), document)

    def written(self, refer: Refer) -> dict[str, Any]:
        return dict(_written(self._document, refer))


class _OwnOptions(NamedTuple):
    """What `@ew.check` says of a function."""

    name: str | None = None
    at_least: float | None = None
    weight: float | None = None


@overload
def check(function: F, /) -> F: ...
@overload
def check(
    *, name: str | None = None, at_least: float | None = None, weight: float | None = None
) -> Callable[[F], F]: ...
def check(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    at_least: float | None = None,
    weight: float | None = None,
) -> F | Callable[[F], F]:
    """Make a function an own check, and refuse at once one that cannot be called as such.

    The function is called with those keyword arguments that it names, out of `input`, `output`,
    `expected`, `calls`, `usage`, `trace` and `task`, and returns a bool, a score from 0 to 1 that
    passes at 1 or `at_least`, or a result with `passed`, `score` and `reason`. It may be async.
    `name` is what results call it. Undecorated functions may stand among checks, too.
    """

    def decorate(decorated: F) -> F:
        if name is not None and not (name.isidentifier() and name.isascii()):
            raise BadInput(f"@ew.check: {name!r} is no name; write letters, digits and _")
        options = _OwnOptions(name, at_least, weight)
        _own_check(decorated, options)
        setattr(decorated, _OPTIONS, options)
        return decorated

    return decorate if function is None else decorate(function)


class OwnFunctions:
    """The functions in a suite, by what its log calls them: `evals.py:polite`.

    That is how a suite file would name them, so that a run can be scored again from the command
    line where the function stands in a file.
    """

    def __init__(self) -> None:
        self.known: dict[str, OwnFunction] = {}
        self._names: dict[OwnFunction | int, str] = {}
        self._counts: dict[str, int] = {}

    def refer(self, function: OwnFunction) -> str:
        """What a function is called, which is the same in every process."""
        # A method is made anew each time that it is asked for; others may not be hashable.
        key = function if inspect.ismethod(function) else id(function)
        if key not in self._names:
            options: _OwnOptions = getattr(function, _OPTIONS, _OwnOptions())
            source = _source_of(function).replace(":", "_")
            name = f"{source}:{options.name or _function_name(function)}"
            self._names[key] = free = self._free(name)
            self.known[free] = function
        return self._names[key]

    def _free(self, name: str) -> str:
        """The name, or where another function has it, the next with a number."""
        free = name
        while free in self.known:
            count = self._counts[name] = self._counts.get(name, 1) + 1
            free = f"{name}_{count}"
        return free


def _function_name(function: OwnFunction) -> str:
    """Its name, with those of what it is defined in, in the letters that a suite file allows."""
    name = named_part(function).__qualname__.replace("<lambda>", "function")
    return _NOT_A_NAME.sub("_", _IN_BETWEEN.sub("", name))


def _source_of(function: OwnFunction) -> str:
    """The file of a function from the working folder; its module where there is none."""
    file = file_of(function)
    if file is None:
        return str(getattr(named_part(function), "__module__", None) or "__main__")
    return file.name if file.is_absolute() else file.as_posix()
