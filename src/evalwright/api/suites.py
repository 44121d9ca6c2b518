"""Suites and tasks as objects: the same as in a suite file, field by field."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from evalwright.agents.outputs import output_value
from evalwright.api.check_objects import Check, CheckGiven, OwnFunctions, as_check, as_checks
from evalwright.api.worlds import GivenWorld
from evalwright.contracts import suite as contract
from evalwright.contracts.coverage import NO_CLAIMS, Claims
from evalwright.contracts.errors import BadInput, InvalidDocument
from evalwright.contracts.jsonvalue import NotJson
from evalwright.contracts.messages import PYTHON, told
from evalwright.contracts.suite import Mode, ModelClass
from evalwright.engine.suites.loader import SuiteSubject, given_subject, is_data_file, read_subject

AgentGiven: TypeAlias = str | Callable[..., Any]
Columns: TypeAlias = str | Sequence[str] | Mapping[str, str]
_WIRE = {"pass_score": "passScore", "max_cost_usd": "maxCostUsd"}
_WIRE |= {"max_p95_latency_ms": "maxP95LatencyMs", "pass_rate": "passRate"}


class ScriptedTurn:
    """What the user says next in a conversation; made by `ew.turn`."""

    def __init__(
        self,
        user: str,
        checks: Iterable[CheckGiven],
        *,
        stop: bool,
        id: str = "",  # noqa: A002 - its name in suites
        then: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        given: object = user
        if not (isinstance(given, str) and given):
            raise BadInput(f"a turn begins with what the user says, a text, not {user!r:.60}")
        self.user = user
        self.checks = as_checks(checks, f"turn {user!r:.40}")
        self.stop = stop
        self.id = id
        self.then = list(then)

    def written(self, own: OwnFunctions) -> dict[str, Any]:
        """The turn as a suite file has it."""
        checks = [each.written(own.refer) for each in self.checks]
        then = [
            {**each, "if": as_check(each["if"]).written(own.refer)} if "if" in each else dict(each)
            for each in self.then
        ]
        fields = {"id": self.id, "user": self.user, "checks": checks, "stop": self.stop}
        fields["then"] = then
        return {name: value for name, value in fields.items() if value}


def turn(
    user: str,
    *,
    checks: Iterable[CheckGiven] = (),
    stop: bool = False,
    id: str = "",  # noqa: A002
    then: Iterable[Mapping[str, Any]] = (),
) -> ScriptedTurn:
    """One turn of a conversation: what the user says, and what a good answer to that is.

    With `stop`, the conversation ends there if one of the checks fails. `then` says which turn
    comes next by the answer: `[{"if": ew.contains("sorry"), "turn": "thanks"}]` is the later turn
    with that `id`, `{"if": …, "end": True}` the end.
    """
    return ScriptedTurn(user, checks, stop=stop, id=id, then=then)


def user(
    goal: str,
    *,
    knows: Mapping[str, Any] | None = None,
    style: str | None = None,
    opening: str | None = None,
    max_turns: int | None = None,
    model: str | None = None,
) -> dict[str, Any]:
    """The user of a conversation, whom a model plays: `ew.Task(…, user=ew.user("Get a refund."))`.

    What it `knows` it tells only when the agent asks for it; `opening` is what it says first. It
    ends the conversation when the goal is reached, when it gives up, or after `max_turns`. `model`
    plays it in place of the `user_model` of the run.
    """
    given = {
        "goal": goal,
        "knows": None if knows is None else dict(knows),
        "style": style,
        "opening": opening,
        "max_turns": max_turns,
        "model": model,
    }
    return {name: value for name, value in given.items() if value is not None}


def _turns(given: Any, place: str) -> list[ScriptedTurn]:
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise BadInput(f'{place}: turns are a list: turns=[ew.turn("Hello", checks=[…])]')
    found = []
    for each in given:
        if isinstance(each, ScriptedTurn):
            found.append(each)
        elif isinstance(each, Mapping) and each.keys() <= {"user", "checks", "stop", "id", "then"}:
            fields = {name: value for name, value in each.items() if name != "user"}
            found.append(turn(each.get("user", ""), **fields))
        else:
            raise BadInput(f"{place}: {each!r:.60} is no turn; write ew.turn(…)")
    return found


class Task:
    """One thing that the agent is asked to do, and what a good answer is.

    The fields are those of a task in a suite file. A conversation has `turns`, made by `ew.turn`,
    or a `user`, made by `ew.user`, in place of an input. Without an `id` the task has one that is
    made from its content. `checks` are checks of `ew`, functions of your own, or dictionaries as
    suite files have them. `fixtures` answer the agent's tools: `{"toolResponses": [{"tool": …,
    "response": …}]}`. The tools of a `world`, made by `ew.world`, read and change its data.
    `faults` are what goes wrong with tools: `[{"tool": …, "fault": "timeout", "on": 1}]`.
    `expected` is a reference answer for templates and own checks. A task that is
    `repeat`ed passes if a share of `pass_rate` does. With `matrix` there is a task for each
    combination of the lists in `vars`.
    """

    def __init__(
        self,
        id: str | None = None,  # noqa: A002 - its name in suites
        *,
        input: Any = msgspec.UNSET,  # noqa: A002
        turns: "Iterable[ScriptedTurn | Mapping[str, Any]]" = (),
        user: Mapping[str, Any] | None = None,
        checks: Iterable[CheckGiven] = (),
        expected: Any = None,
        fixtures: Mapping[str, Any] | None = None,
        world: GivenWorld | str | None = None,
        faults: Iterable[Mapping[str, Any]] = (),
        tags: Iterable[str] = (),
        weight: float | None = None,
        threshold: float | None = None,
        repeat: int | None = None,
        pass_rate: float | None = None,
        vars: Mapping[str, Any] | None = None,  # noqa: A002
        matrix: bool | Sequence[str] | None = None,
        description: str | None = None,
        title: str | None = None,
    ) -> None:
        if not isinstance(id, str | None):
            raise BadInput(f"a task begins with its id, a text, not {id!r:.60}")
        self.id = id
        place = "a task" if id is None else f"task {id!r}"
        self.turns = _turns(turns, place)
        self.user = user
        if [input is not msgspec.UNSET, bool(self.turns), user is not None].count(True) != 1:
            raise BadInput(f"{place}: give it an input, or the turns or the user of a conversation")
        is_asked = input is not msgspec.UNSET
        self.input = _plain(input, f"{place}, input") if is_asked else None
        self.checks: list[Check] = as_checks(checks, place)
        self.expected = _plain(expected, f"{place}, expected")
        self.fixtures = fixtures
        self.world = world
        self.faults = _faults(faults, place)
        self.tags = _texts(tags, f"{place}, tags")
        self.weight = weight
        self.threshold = threshold
        self.repeat = repeat
        self.pass_rate = pass_rate
        self.vars = vars
        self.matrix = matrix
        self.description = description
        self.title = title

    def written(self, own: OwnFunctions) -> dict[str, Any]:
        """The task as a suite file has it."""
        fields = {name: value for name, value in vars(self).items() if value is not None}
        if not self.turns and self.user is None:
            fields["input"] = self.input
        fields["turns"] = [each.written(own) for each in self.turns]
        fields["checks"] = [each.written(own.refer) for each in self.checks]
        if isinstance(self.world, GivenWorld):
            fields["world"] = self.world.name
        return {
            k: v for k, v in fields.items() if v or k not in ("checks", "tags", "faults", "turns")
        }

    def __repr__(self) -> str:
        return f"<task {self.id or 'without an id'}: {len(self.checks)} checks>"


def _plain(value: Any, place: str) -> Any:
    try:
        return output_value(value)
    except NotJson as error:
        raise BadInput(f"{place}: not a value that JSON can carry: {error}") from None


def _faults(given: Any, place: str) -> list[Mapping[str, Any]]:
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        message = f"{place}: faults are a list, such as [{{'fault': 'timeout', 'on': 1}}]"
        raise BadInput(message)
    return list(given)


def _is_text(given: object) -> bool:
    return isinstance(given, str) and bool(given)


def _texts(given: Iterable[str], place: str) -> list[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise BadInput(f"{place}: expected a list of texts, such as [{str(given)!r}]")
    return list(given)


class Suite:
    """A set of tasks with the bar that decides a pass: what `ew.run` runs.

    The fields are those of a suite file, and the same defaults hold: `suite_id` is
    `local.evals.NAME` and `version` 0.0.0 unless they are given; `thresholds` are bars such as
    `{"passScore": 0.9}`; `agent` may be an object with its `ref` and what is claimed of it;
    `defaults` hold for every task, and their checks are added to those of the task. `data` names
    files with a task in each row. `worlds` are those that tasks name; a world that a task has as an
    object need not be among them. Files are found from the working folder.
    """

    def __init__(
        self,
        name: str = "suite",
        *,
        tasks: Iterable[Task | Mapping[str, Any]] = (),
        data: str | Path | Sequence[str | Mapping[str, Any]] | None = None,
        agent: AgentGiven | Mapping[str, Any] | None = None,
        thresholds: Mapping[str, Any] | None = None,
        defaults: Mapping[str, Any] | None = None,
        vars: Mapping[str, Any] | None = None,  # noqa: A002 - its name in suites
        worlds: Iterable[GivenWorld] = (),
        suite_id: str | None = None,
        version: str | None = None,
        modes: Sequence[Mode] | None = None,
        target_agent_id: str | None = None,
        allowed_models: Sequence[ModelClass] | None = None,
        description: str | None = None,
    ) -> None:
        if not _is_text(name):
            told = f"a suite begins with its name, a text, not {name!r:.60}"
            remedy = _FROM_ROWS if hasattr(name, "columns") else 'write ew.Suite("name", tasks=[…])'
            raise BadInput(f"{told}; {remedy}")
        self.name = name
        self.agent, self._claims = _agent_and_claims(agent, name)
        self._given = [_as_task(each) for each in _tasks(tasks, name)]
        self._folder: Path | None = None
        self._worlds = _worlds((*worlds, *(each.world for each in self._given)), name)
        self._fields = {
            "description": description,
            "suiteId": suite_id,
            "version": version,
            "modes": modes,
            "targetAgentId": target_agent_id,
            "allowedModels": allowed_models,
            "thresholds": thresholds and _bars(thresholds),
            "defaults": defaults,
            "vars": vars,
            "data": str(data) if isinstance(data, Path) else data,
        }

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        input: Columns | None = None,  # noqa: A002 - its name in suites
        expected: str | None = None,
        id: str | None = None,  # noqa: A002
        checks: Iterable[CheckGiven] = (),
    ) -> "Suite":
        """A suite from its file, or a data file with a task in each row.

        For a data file (CSV, TSV, JSON, JSONL, YAML, Parquet), `input`, `expected` and `id` name
        columns, and `checks` say what a good answer is: `ew.contains("{{ expected }}")`.
        """
        name = str(path)
        given = as_checks(checks, name)
        columns = _columns(input, expected, id, None, None)
        if not (is_data_file(name) or columns or given):
            return _FileSuite(Path(path))
        entry = {"file": Path(path).name, "map": columns, "checks": given}
        suite = cls(Path(path).name.partition(".")[0], data=[_without_nothing(entry)])
        suite._folder = Path(path).parent
        return suite

    @classmethod
    def from_rows(
        cls,
        rows: Any,
        *,
        input: Columns | None = None,  # noqa: A002 - its name in suites
        expected: str | None = None,
        id: str | None = None,  # noqa: A002
        tags: str | None = None,
        title: str | None = None,
        checks: Iterable[CheckGiven] = (),
        name: str = "rows",
        **fields: Any,
    ) -> "Suite":
        """A suite with a task of each row: dictionaries, or a frame of pandas, polars or Arrow.

        `input` names the columns that the agent receives: `input="question"` gives it
        `{"question": …}`, and `input={"q": "question"}` calls it `q`. `expected`, `id`, `tags`
        and `title` name one each. What is not named goes by the usual names of columns. `checks`
        are those of every row and may use its columns: `ew.contains("{{ expected }}")`. Other
        fields are those of `Suite`.
        """
        listed = [_row(row, number) for number, row in enumerate(_rows(rows), 1)]
        entry = {
            "rows": listed,
            "map": _columns(input, expected, id, tags, title),
            "checks": as_checks(checks, name),
        }
        return cls(name, data=[_without_nothing(entry)], **fields)

    @cached_property
    def tasks(self) -> list[Task]:
        """The tasks: as they were given, or as they were read."""
        if "data" not in self._written and self._given:
            return self._given
        return [_shown_task(task) for task in self.subject().suite.tasks]

    @property
    def document(self) -> dict[str, Any]:
        """The suite as a suite file has it."""
        return self._document(OwnFunctions())

    def subject(self) -> SuiteSubject:
        """The suite as a run takes it; raises `EvalwrightError` with every problem."""
        own = OwnFunctions()
        document = self._document(own)
        if document.keys().isdisjoint(("tasks", "data")):
            raise BadInput(f"suite {self.name!r} has no tasks; give it some: tasks=[ew.Task(…)]")
        try:
            subject = given_subject(document, self.name, own.known, self._folder)
            return subject._replace(claims=self._claims)
        except InvalidDocument as error:
            from evalwright.engine.suites.problems import placed

            problems = [
                msgspec.structs.replace(each, remedy=told(each.remedy, OF_ROWS))
                for each in placed(error.problems, b"", document)
            ]
            raise InvalidDocument(error.name, problems) from None

    def _document(self, own: OwnFunctions) -> dict[str, Any]:
        fields = {name: _lowered(value, own) for name, value in self._written.items()}
        tasks = [task.written(own) for task in self._given]
        claims = msgspec.to_builtins(self._claims)
        named = {"ref": self.agent, **claims} if claims else self.agent
        agent = {"agent": named} if isinstance(self.agent, str) else {}
        worlds = {each.name: each.written(own) for each in self._worlds}
        document = {"evalwright": 1, "name": self.name, **agent, **fields}
        document |= {"worlds": worlds} if worlds else {}
        return {**document, "tasks": tasks} if tasks else document

    @property
    def _written(self) -> dict[str, Any]:
        return {name: value for name, value in self._fields.items() if value is not None}

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)

    def __repr__(self) -> str:
        return f"<suite {self.name}>"


class _FileSuite(Suite):
    """A suite file, which is read as the command line reads it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = read_subject(path, None)
        super().__init__(self._read.suite.suite_id, agent=self._read.agent)

    def subject(self) -> SuiteSubject:
        return self._read

    @property
    def document(self) -> dict[str, Any]:
        from evalwright.contracts.documents import parse_document, read_input

        return dict(parse_document(read_input(str(self._path)), str(self._path)))


# Where a suite is an object, its columns are named by keywords, and not in a `map`.
OF_ROWS = PYTHON._replace(
    words={
        "which_input": "say which it is: input=COLUMN",
        "which_expected": "give `expected`; of rows say which column it is: expected=COLUMN",
    }
)
_FROM_ROWS = "a data frame becomes tasks with ew.Suite.from_rows(frame, input=…, checks=[…])"


def _tasks(given: Any, name: str) -> Iterable[Any]:
    if hasattr(given, "columns"):
        raise BadInput(f"suite {name!r}: {_FROM_ROWS}")
    if isinstance(given, Task | Mapping | str) or not isinstance(given, Iterable):
        raise BadInput(f"suite {name!r}: tasks are a list: tasks=[…]")
    return list(given)


def _worlds(given: Iterable[Any], name: str) -> list[GivenWorld]:
    """The worlds of a suite, each once; two of one name would be one another's."""
    found: dict[str, GivenWorld] = {}
    for each in given:
        if isinstance(each, GivenWorld) and found.setdefault(each.name, each) is not each:
            raise BadInput(f"suite {name!r}: two worlds are called {each.name!r}")
    return list(found.values())


def _agent_and_claims(
    given: AgentGiven | Mapping[str, Any] | None, name: str
) -> tuple[AgentGiven | None, Claims]:
    if not isinstance(given, Mapping):
        return given, NO_CLAIMS
    claimed = {key: value for key, value in given.items() if key != "ref"}
    try:
        return given["ref"], msgspec.convert(claimed, Claims)
    except (KeyError, msgspec.ValidationError) as error:
        message = f"suite {name!r}: agent {dict(given)!r:.80} has `ref`, and perhaps `tools` (none"
        raise BadInput(f"{message}, task), `usage` (none) and `isolate`: {error}") from None


def _as_task(given: Task | Mapping[str, Any]) -> Task:
    if isinstance(given, Task):
        return given
    if isinstance(given, Mapping):
        unknown = [key for key in given if key not in _TASK_FIELDS]
        if not unknown and not {"input", "turns", "user"}.isdisjoint(given):
            return Task(given.get("id"), **{k: v for k, v in given.items() if k != "id"})
        wrong = f"no field {unknown[0]!r}" if unknown else "input is missing"
        raise BadInput(f"{given!r:.60}: not a task: {wrong} (there are: {', '.join(_TASK_FIELDS)})")
    raise BadInput(f'{given!r:.60} is not a task; write ew.Task("id", input=…, checks=[…])')


_TASK_FIELDS = tuple(Task("any", input="").__dict__)


def _shown_task(task: contract.Task) -> Task:
    expected = task.expected
    checks: list[Any] = expected.checks or []
    if expected.match is not None and expected.match.strategy in ("exact", "contains"):
        name = {"exact": "equals"}.get(expected.match.strategy, expected.match.strategy)
        checks = [{name: expected.match.value}]
    if expected.rubric is not None:
        checks = [{"judge": [msgspec.to_builtins(each) for each in expected.rubric]}]
    return Task(
        task.task_id,
        input=msgspec.UNSET if task.is_conversation else task.input,
        turns=msgspec.to_builtins(task.turns),
        user=msgspec.to_builtins(task.user),
        checks=checks,
        expected=None if task.reference is msgspec.UNSET else task.reference,
        fixtures=None if task.fixtures is None else msgspec.to_builtins(task.fixtures),
        world=task.world or None,
        faults=msgspec.to_builtins(task.faults),
        tags=task.tags,
        weight=None if task.weight == 1 else task.weight,
        threshold=expected.threshold,
        repeat=None if task.repeat == 1 else task.repeat,
        pass_rate=None if task.pass_rate == 1 else task.pass_rate,
        title=task.title or None,
    )


def _lowered(value: Any, own: OwnFunctions, *, is_checks: bool = False) -> Any:
    if isinstance(value, Check):
        return value.written(own.refer)
    if is_checks and isinstance(value, list | tuple):
        return [as_check(each).written(own.refer) for each in value]
    if isinstance(value, Mapping):
        return {k: _lowered(v, own, is_checks=k == "checks") for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_lowered(each, own) for each in value]
    return value


def _without_nothing(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if value or name == "rows"}


def _columns(
    given: Columns | None,
    expected: str | None,
    task_id: str | None,
    tags: str | None,
    title: str | None,
) -> dict[str, str]:
    named = {given: given} if isinstance(given, str) else given or {}
    pairs = named if isinstance(named, Mapping) else {column: column for column in named}
    fields = {f"input.{name}": column for name, column in pairs.items()}
    chosen = {"expected": expected, "id": task_id, "tags": tags, "title": title}
    return fields | {field: column for field, column in chosen.items() if column is not None}


def _rows(given: Any) -> Iterable[Any]:
    """The rows of a list, or of a data frame, which is known by what it offers."""
    if hasattr(given, "to_dicts"):  # polars
        return list(given.to_dicts())
    if hasattr(given, "to_pylist"):  # Arrow
        return list(given.to_pylist())
    if hasattr(given, "to_dict") and hasattr(given, "columns"):  # pandas
        missing = given.isna().to_dict("records")
        rows = given.to_dict("records")
        return [
            {name: None if gone[name] is True else value for name, value in row.items()}
            for row, gone in zip(rows, missing, strict=True)
        ]
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise BadInput(
            f"{given!r:.60}: rows are a list of dictionaries, or a data frame; "
            "a file is read by ew.Suite.from_file"
        )
    return given


def _row(row: Any, number: int) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise BadInput(f"row {number}: {row!r:.60} is not a dictionary with the names of columns")
    return dict(_plain({str(key): value for key, value in row.items()}, f"row {number}"))


def _bars(given: Mapping[str, Any]) -> dict[str, Any]:
    """Bars by the names that suite files have for them; those of tags, too."""
    named = {_WIRE.get(name, name): value for name, value in given.items()}
    if isinstance(tags := named.get("tags"), Mapping):
        named["tags"] = {
            tag: _bars(bar) if isinstance(bar, Mapping) else bar for tag, bar in tags.items()
        }
    return named
