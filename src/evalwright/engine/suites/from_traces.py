"""A suite from recordings: what was asked, fixtures, and checks that hold of what was recorded.

A good answer is held to what is likely to stay when the same agent is asked again: free text is
worded anew each time, and times and random ids are of one recording; names, numbers, and what the
user or a tool said before are not. A case that failed becomes a task that cannot pass before
somebody has written what is right.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from evalwright.contracts.coverage import RECORDED, Coverage
from evalwright.contracts.documents import parse_document, read_input, unfit_for_json
from evalwright.contracts.errors import BadInput, InvalidDocument
from evalwright.contracts.marks import MARK_START
from evalwright.contracts.report import GRAVE
from evalwright.contracts.suite import (
    MAX_TASK_ID,
    MOST_TURNS,
    Expected,
    Fixtures,
    Task,
    is_evalwright_suite,
)
from evalwright.contracts.yaml_writer import Noted, comment, to_yaml
from evalwright.engine.examination import made_calls
from evalwright.engine.findings import invocation_signals
from evalwright.engine.recorded_traces import RECORDED_AGENT, is_good, recorded_events
from evalwright.engine.rescore import named_briefly
from evalwright.engine.suites.document import load_suite, suite_from_file
from evalwright.engine.suites.ids import Ids, digest, row_id, slug
from evalwright.engine.suites.loader import SuiteSubject, read_subject
from evalwright.engine.suites.recorded_worlds import RecordedWorlds, decoded, key_of
from evalwright.engine.suites.selection import Wanted, select
from evalwright.engine.suites.templates import BadTemplate, literal
from evalwright.scoring.checks.base import Examined
from evalwright.scoring.checks.table import CHECKS, prepare_checks
from evalwright.signals.kinds import detect
from evalwright.signals.masking import mask_text, mask_value
from evalwright.trace.decode import decode_trace
from evalwright.trace.model import Json, ToolCall, Trace, text_of
from evalwright.trace.paired_calls import pair_results
from evalwright.trace.recorded_case import Recording, turns_of, words_in

FAILED = "failed"
PLACEHOLDER = "TODO: write what is right here"
LIKENESS = 0.5  # to the recorded answer: the same words in part, as another day brings them
_MOST_WRONG = 3
_LONGEST_WRONG = 300
_WORDS_IN_ID = 6
MOST_FACTS = 5
MOST_IN_ORDER = 12
_LONGEST = 80  # characters of a value that is worth comparing
_MOST_ITEMS = 20
_MOST_CALLS = 50  # whose arguments are looked at
_NAME = re.compile(r"[A-Za-z][\w.:/@-]{0,39}", re.ASCII)
_OF_ONE_TIME = re.compile(
    r"[0-9a-fA-F]{12,}|[0-9a-fA-F]{8}-[0-9a-fA-F-]{8,}"  # random ids
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\d{1,2}:\d\d:\d\d|\b1[5-9]\d{8}(?:\d{3})?\b",  # times
    re.ASCII,
)
_WORD = re.compile(r"[\w$€£#+-][\w.,:/#%€$-]*", re.ASCII)
_MARK = MARK_START.decode()
_DROPPED: Any = object()
_ABOUT = (
    "Look it through before you rely on it. Tools answer as they were recorded, in that order.",
    "Checks hold the calls, facts and words of the recorded answers that are likely to stay;",
    f"`similar` wants {LIKENESS:.0%} of the words. Where you know more, say more: docs/checks.md.",
    "Calls that nobody observed are no evidence: docs/agent-guide.md says how they are observed.",
)
_ALL = {"passScore": 1}
_ALL_NOTE = "So that nothing passes while a TODO is left; then lower this, or take it out."
_OF_TASKS = frozenset({"tasks", "data"})


def stable_part(value: Json, before: str) -> Json | None:
    """The part of a JSON object that stays; None if nothing does. `before` is what was said."""
    kept = _kept(value, before) if isinstance(value, dict) else _DROPPED
    return None if kept is _DROPPED else kept


def _kept(value: Json, before: str) -> Json:
    if isinstance(value, dict):
        members = {key: _kept(each, before) for key, each in value.items() if _MARK not in key}
        left = {key: each for key, each in members.items() if each is not _DROPPED}
        if not left:
            return _DROPPED
        if len(left) != 1 or left.keys().isdisjoint(CHECKS):
            return left
        return {"equals": left} if left == value else _DROPPED  # else it would be a check
    if isinstance(value, list):
        items = [_kept(each, before) for each in value[:_MOST_ITEMS]]
        return items if items and _DROPPED not in items and items == value else _DROPPED
    return value if _stays(value, before) else _DROPPED


def _stays(value: Json, before: str) -> bool:
    if value is None:
        return False
    if isinstance(value, bool):
        return True
    text = text_of(value)
    if not text.strip() or len(text) > _LONGEST or _MARK in text:
        return False
    if text in before:
        return True
    if _OF_ONE_TIME.search(text):
        return False
    return not isinstance(value, str) or _NAME.fullmatch(text) is not None


def calls_to_expect(calls: Sequence[ToolCall], trace: Trace) -> list[dict[str, Any]]:
    """Checks of the calls of an agent: in order, if one came after the result of the other."""
    calls = [call for call in calls if call.tool]
    if len(calls) > _MOST_CALLS:
        return [{"calls": tool} for tool in dict.fromkeys(call.tool for call in calls)]
    wanted = [_wanted(call, trace) for call in calls]
    if not wanted:
        return []
    distinct = [each for n, each in enumerate(wanted) if each not in wanted[:n]]
    if len(distinct) == 1:
        return [{"calls": distinct[0]}]
    in_a_row = [each for n, each in enumerate(wanted) if n == 0 or each != wanted[n - 1]]
    if len(in_a_row) <= MOST_IN_ORDER and _one_by_one(calls, trace):
        return [{"calls_in_order": in_a_row}]
    return [{"calls": each} for each in distinct]


def _wanted(call: ToolCall, trace: Trace) -> Any:
    # All that the user said, and tools answered, before an event.
    said = [trace.prompt]
    said += [text_of(each.content) for each in trace.messages if each.role == "user"]
    said += [text_of(each.payload) for each in trace.results if each.index < call.index]
    said += [text_of(each.content) for each in trace.retrievals if each.index < call.index]
    args = stable_part(call.args, "\n".join(said))
    return {"tool": call.tool, "args": args} if args else call.tool


def _one_by_one(calls: Sequence[ToolCall], trace: Trace) -> bool:
    """Whether each call has its result before the next one is made."""
    results = pair_results(trace)
    ends = [results.get(call.index) for call in calls]
    return all(
        end is not None and end.index < after.index
        for end, after in zip(ends, calls[1:], strict=False)
    )


def facts_in(answer: str, trace: Trace) -> list[str]:
    """Numbers, ids and names of an answer that tools gave; the user's own are easily repeated."""
    told = {word for text in trace.payload_texts for word in _words(text)}
    found = [
        word
        for word in _words(answer)
        if word in told
        and any(map(str.isdigit, word))
        and 1 < len(word) <= _LONGEST
        and not _OF_ONE_TIME.search(word)
    ]
    return found[:MOST_FACTS]


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(each.rstrip(".,:-/") for each in _WORD.findall(text)))


class NoTask(Exception):
    """Why there cannot be a task for a recording."""


class MadeTask(msgspec.Struct, frozen=True):
    """A task as a suite has it, and what somebody who reads the suite should know."""

    document: dict[str, Any]
    notes: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()  # what went wrong in the recording
    unanswered: int = 0  # calls without a recorded result
    retrievals: int = 0  # for which there are no fixtures


class TaskMaker:
    """Makes tasks of recordings, each with an id of its own."""

    def __init__(
        self,
        *,
        masked: bool = True,
        with_system: bool = False,
        worlds: RecordedWorlds | None = None,
    ) -> None:
        """With `worlds`, these answer the tools of the tasks, as far as they can."""
        self.worlds = worlds
        self._masked = masked
        self._with_system = with_system
        self._ids = Ids(str)
        self._count = 0

    def wrong_with(self, recording: Recording) -> tuple[str, ...]:
        found = [" ".join(each.split())[:_LONGEST_WRONG] for each in _wrong(recording)]
        return tuple(mask_text(each) if self._masked else each for each in found)

    def shown(self, recording: Recording) -> Trace:
        """What a suite may show of a recording; raises `NoTask` if nothing may be."""
        if not self._masked:
            return recording.trace
        response = mask_value(recording.response)
        if not isinstance(response, dict):
            raise NoTask("it is nested too deeply for its secrets to be masked")
        return decode_trace(response, recording.name, mask_text(recording.prompt))

    def task(self, recording: Recording, wrong: Sequence[str]) -> MadeTask:
        """The task of a recording; raises `NoTask` if there cannot be one."""
        trace, given = self.shown(recording), recording.given
        if given is msgspec.UNSET:
            given = input_of(trace, with_system=self._with_system)
        elif self._masked:
            given = mask_value(given)
        if not given:
            raise NoTask("what the user asked was not recorded")
        calls = _last_calls(trace)
        tools = {call.tool for call in calls}
        # Tools that were not called any more after the user's last words answer as they did before.
        to_answer = [call for call in trace.calls if call.tool and call.tool not in tools] + calls
        world, turns = None, None
        if self.worlds is not None or recording.is_conversation:
            turns = _turns(trace)
            if turns:
                calls = to_answer = [call for call in trace.calls if call.tool]
        if self.worlds is not None:
            world, left = self.worlds.of(recording)
            results = pair_results(trace)
            to_answer = [
                call
                for call in to_answer
                if (key := key_of(call)) in left
                or (call.index not in results and not world.knows(key))
            ]
        fixtures, unanswered = _fixtures(trace, to_answer, with_args=world is not None)
        document: dict[str, Any] = {"id": self.new_id(recording)}
        if wrong:
            more = f"; and {len(wrong) - _MOST_WRONG} more" if len(wrong) > _MOST_WRONG else ""
            what = f"What went wrong: {'; '.join(wrong[:_MOST_WRONG])}{more}"
            document |= {"description": what, "tags": [FAILED]}
        if turns:
            document["turns"] = [{"user": literal(each)} for each in turns]
        else:
            document["input"] = literal(given)
        if world is not None and not world.is_empty:
            document["world"] = world.name
        if fixtures:
            document["fixtures"] = {"toolResponses": fixtures}
        if trace.output is not None and trace.failure is None:
            document["expected"] = literal(trace.output.content)
        if not wrong:
            document["checks"] = _checks(trace, recording, given, calls)
        else:
            if "expected" in document:
                note = "What was answered; not what is right."
                document["expected"] = Noted(document["expected"], (note,))
            note = "It fails until you replace this: say what a right answer is, or does not do."
            failing = Noted({"equals": PLACEHOLDER}, (note,))
            document["checks"] = [failing, {"no_signals": "high"}]
        place = mask_text(recording.place) if self._masked else recording.place
        return MadeTask(document, (place,), tuple(wrong), unanswered, len(trace.retrievals))

    def new_id(self, recording: Recording) -> str:
        self._count += 1
        wanted = row_id(mask_text(recording.case_id)) if recording.case_id else None
        if not wanted:
            words = mask_text(words_in(recording.trace))
            start = slug(" ".join(words.split()[:_WORDS_IN_ID]))[:40].strip("-")
            wanted = f"{start}-{digest(words)[:6]}".lstrip("-")
        wanted = wanted[: MAX_TASK_ID - 8].strip("-")  # with room for a number
        if self._ids.claim(wanted, self._count):
            return wanted
        return self._ids.numbered(wanted, self._count)


def input_of(trace: Trace, *, with_system: bool = False) -> Any:
    """What the user asked; of a conversation all that was said up to the last question."""
    turns = turns_of(trace)
    said = [{"role": turn.role, "content": turn.content} for turn in turns]
    if with_system and trace.system:
        return {"messages": [{"role": "system", "content": trace.system}, *said]}
    return {"messages": said} if len(said) > 1 else trace.prompt


def _wrong(recording: Recording) -> Iterator[str]:
    trace = recording.trace
    if trace.failure is not None:
        yield f"{trace.failure.kind}: {trace.failure.message}".rstrip(": ")
    elif trace.output is None:
        yield "no answer was recorded"
    for signal in detect(trace):
        if signal.severity in GRAVE:
            yield f"{signal.severity} signal {signal.kind}: {signal.title}"
    results = pair_results(trace)
    answered = [(call, results[call.index]) for call in trace.calls if call.index in results]
    last = {call.tool: result for call, result in answered}  # a later one may have made it good
    for tool, result in last.items():
        if not is_good(result):
            message = result.error or text_of(result.payload) or result.status
            yield f"{tool or 'a tool'} failed: {message}"
    if recording.passed is False:
        yield "it did not pass where it was recorded"


def _last_calls(trace: Trace) -> list[ToolCall]:
    """The calls after the user's last words: those before are part of what is asked."""
    turns = turns_of(trace)
    start = turns[-1].index if turns else -1
    return [call for call in trace.calls if call.tool and call.index > start]


def _turns(trace: Trace) -> list[str]:
    """What the user says in a conversation; nothing if it is not one, or not of texts."""
    said = [turn.content for turn in turns_of(trace) if turn.role == "user"]
    are_texts = all(isinstance(each, str) and each for each in said)
    return said if 1 < len(said) <= MOST_TURNS and are_texts else []


def _fixtures(trace: Trace, calls: Sequence[ToolCall], *, with_args: bool) -> tuple[list[Any], int]:
    """What calls were answered, in order; and how many answers were not recorded."""
    results = pair_results(trace)
    found: list[Any] = []
    unanswered = 0
    for call in calls:
        result = results.get(call.index)
        entry: dict[str, Any] = {"tool": call.tool}
        if with_args and isinstance(call.args, dict):
            entry["args"] = literal(call.args)
        if result is None:
            unanswered += 1
            found.append(Noted({**entry, "response": None}, ("No result was recorded.",)))
        elif is_good(result):
            found.append({**entry, "response": literal(decoded(result.payload))})
        else:
            said = result.payload
            said = {"error": result.error or result.status} if said is None else said
            entry["response"] = literal(said)
            found.append(Noted(entry, ("Recorded as an error.",)))
    return found, unanswered


def _checks(trace: Trace, recording: Recording, given: Any, calls: Sequence[ToolCall]) -> list[Any]:
    assert trace.output is not None
    content = trace.output.content
    wanted = calls_to_expect(calls, trace)
    value = decoded(content)
    if isinstance(value, dict):  # or the text of an object
        told = "\n".join((trace.prompt, *trace.payload_texts))
        if part := stable_part(value, told):
            wanted.append({"json": {"subset": part}})
    else:
        if facts := facts_in(text_of(content), trace):
            wanted.append({"contains_all": facts})
        if text_of(content).strip():
            wanted.append({"similar": {"to": "{{ expected }}", "at_least": LIKENESS}})
    kept = [
        check if "similar" in check else literal(check)
        for check in wanted
        if _holds(check, trace, recording)
    ]
    if not _is_suspect(trace, given) and not _is_suspect(recording.trace, given):
        kept.append({"no_signals": "high"})
    return kept or [{"regex": r"\S"}]


def _holds(check: dict[str, Any], shown: Trace, recording: Recording) -> bool:
    """Whether a check can be made, and both what was recorded and what is shown of it pass."""
    assert shown.output is not None
    text = text_of(shown.output.content)
    rendered = check
    if "similar" in check:
        rendered = {"similar": {**check["similar"], "to": text}}
    elif MARK_START.decode() in text_of(check):
        return False
    prepared, problems = prepare_checks([rendered], "$", None)
    return not problems and all(
        each.outcome(_examined(trace)).passed
        for each in prepared
        for trace in (shown, recording.trace)
    )


def _examined(trace: Trace) -> Examined:
    calls = made_calls(recorded_events(trace, "inv-0001", RECORDED_AGENT))
    output = trace.output.content if trace.output else None
    return Examined(output=output, calls=calls, coverage=Coverage(RECORDED, RECORDED))


def _is_suspect(trace: Trace, given: Any) -> bool:
    task = Task("task", given, Expected("checks"), Fixtures())
    events = recorded_events(trace, "inv-0001", RECORDED_AGENT)
    return any(each.severity in GRAVE for each in invocation_signals(task, RECORDED_AGENT, events))


class WantedRecordings(NamedTuple):
    """Which recordings become tasks."""

    failed_only: bool = False
    limit: int | None = None


class RecordedSuite:
    """Makes the suite, and counts what became of the recordings."""

    def __init__(self, source: str, maker: TaskMaker, wanted: WantedRecordings) -> None:
        self.made = 0
        self.failed = 0
        self._source = source
        self._maker = maker
        self._wanted = wanted
        self._seen: set[str] = set()
        self._passed_over: dict[str, list[str]] = {}
        self._remarks: Counter[str] = Counter()

    def tasks(self, recordings: Iterable[Recording]) -> Iterator[MadeTask]:
        if (worlds := self._maker.worlds) is not None:
            recordings = [each for each in recordings if each.fault is None]
            for recording in recordings:
                with suppress(NoTask):
                    worlds.add(recording, self._maker.shown(recording))
            worlds.derive()
        for recording in recordings:
            if recording.fault is not None:
                continue  # whoever reads the recordings tells of it
            wrong = self._maker.wrong_with(recording)
            reason = self._why_not(recording, is_wrong=bool(wrong))
            try:
                made = None if reason else self._maker.task(recording, wrong)
                reason = reason or self._why_unfit(made, is_named=recording.case_id is not None)
            except (NoTask, BadTemplate) as error:
                made, reason = None, str(error)
            if made is None or reason:
                self._passed_over.setdefault(str(reason), []).append(recording.name)
                continue
            self.made += 1
            self.failed += bool(made.wrong)
            self._remarks["calls"] += made.unanswered
            self._remarks["retrievals"] += made.retrievals
            yield made

    def _at_least_one(self, recordings: Iterable[Recording]) -> Iterator[MadeTask]:
        yield from self.tasks(recordings)
        if not self.made:
            reasons = "; ".join(self._told()) or "nothing in it can be read"
            raise BadInput(f"{self._source}: no task, so no suite is written; {reasons}")

    def _why_not(self, recording: Recording, *, is_wrong: bool) -> str | None:
        if self._wanted.limit is not None and self.made >= self._wanted.limit:
            return f"beyond the limit of {self._wanted.limit}"
        if self._wanted.failed_only and not is_wrong:
            return "nothing failed in it"
        if recording.case_id is None:
            return None
        key = digest([recording.case_id, words_in(recording.trace)])
        if key in self._seen:
            return "repeats a case, and failed there" if is_wrong else "repeats a case"
        self._seen.add(key)
        return None

    def _why_unfit(self, made: MadeTask | None, *, is_named: bool) -> str | None:
        """Why a suite cannot hold a task; so what is written is always valid."""
        if made is None:
            return None
        plain = {key: _plain(each) for key, each in made.document.items()}
        key = digest([each for name, each in plain.items() if name != "id"])
        if key in self._seen and not is_named:
            return "the same as another one"
        self._seen.add(key)
        suite: dict[str, Any] = {"evalwright": 1, "tasks": [plain]}
        if "world" in plain:  # which is valid, as large as it may be
            suite["worlds"] = {plain["world"]: {"data": {"a": []}, "tools": {"a": {"create": "a"}}}}
        try:
            problems = unfit_for_json(suite)
            if not problems:
                load_suite(suite)
        except InvalidDocument as error:
            problems = error.problems
        return f"no suite can hold it: {problems[0].message}" if problems else None

    def notes(self) -> Iterator[str]:
        yield from self._told()
        if (worlds := self._maker.worlds) is not None:
            yield from worlds.notes()
        if count := self._remarks["calls"]:
            yield f"{_several(count, 'call')} without a recorded result: fixtures answer null"
        if count := self._remarks["retrievals"]:
            yield f"{_several(count, 'retrieval')} without fixtures: only tools have some"
        if self.failed:
            yield (
                f"{_several(self.failed, 'task')} of failed cases: write what is right where it "
                "says TODO"
            )

    def _told(self) -> Iterator[str]:
        for reason, names in self._passed_over.items():
            yield f"passed over, {reason}: {len(names):,} ({named_briefly(names)})"

    def as_yaml(self, recordings: Iterable[Recording]) -> Iterator[bytes]:
        head = {"evalwright": 1, "name": self._name}
        about = (f"Made from {self._source} by `evalwright tasks`.", *_ABOUT)
        lines = "".join(f"{comment(line)}\n" for line in about)
        for made in self._at_least_one(recordings):
            if self.made == 1:
                yield _text(f"{lines}{to_yaml(head)}tasks:\n")
            yield _text(to_yaml([Noted(made.document, made.notes)], 1))
        yield from (_text(to_yaml({"worlds": each})) for each in self._worlds())
        if self.failed:
            yield _text(to_yaml({"thresholds": Noted(_ALL, (_ALL_NOTE,))}))

    def as_json(self, recordings: Iterable[Recording]) -> Iterator[bytes]:
        tasks = [_plain(made.document) for made in self._at_least_one(recordings)]
        document: dict[str, Any] = {"evalwright": 1, "name": self._name, "tasks": tasks}
        for worlds in self._worlds():
            document["worlds"] = worlds
        if self.failed:
            document["thresholds"] = _ALL
        yield _text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    def _worlds(self) -> Iterator[dict[str, Any]]:
        if self._maker.worlds is not None and (worlds := self._maker.worlds.documents()):
            yield worlds

    @property
    def _name(self) -> str:
        return slug(self._source.partition(".")[0])[:60].strip("-") or "recorded"


def _text(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _several(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _plain(value: Any) -> Any:
    if isinstance(value, Noted):
        return _plain(value.value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


class ScoredSubject(NamedTuple):
    """A suite, and the recordings to score by it."""

    subject: SuiteSubject
    usable: list[Recording]
    has_own_tasks: bool


def scored_subject(
    path: Path, recordings: Iterable[Recording], tasks: Sequence[str], tagged: Sequence[str]
) -> ScoredSubject:
    """A suite with the tasks that are wanted, and the recordings that can be used.

    In a suite without tasks, each recording becomes one, which the defaults apply to.
    """
    document, source = _without_tasks(path)
    if document is None:
        subject = read_subject(path, None)
        usable = [each for each in recordings if each.fault is None]
    else:
        new_id = TaskMaker().new_id
        sound = (each for each in recordings if each.fault is None)
        usable = [msgspec.structs.replace(each, case_id=new_id(each)) for each in sound]
        made = [
            {"id": each.case_id, "input": literal(each.given or input_of(each.trace))}
            for each in usable
        ]
        loaded = suite_from_file(source, path, {**document, "tasks": made})
        subject = SuiteSubject(loaded.suite, None, loaded.source, loaded.notices)
    if tasks or tagged:
        wanted = Wanted(tasks=tuple(tasks), tagged=tuple(tagged))
        suite, selection = select(subject.suite, wanted, str(path))
        subject = subject._replace(suite=suite, selection=selection)
    return ScoredSubject(subject, usable, has_own_tasks=document is None)


def _without_tasks(path: Path) -> tuple[dict[str, Any] | None, bytes]:
    """The document of a suite that has defaults, and no tasks; None for any other file."""
    if not path.name.lower().endswith((".yaml", ".yml", ".json")):
        return None, b""
    source = read_input(path)
    if b"evalwright" not in source:
        return None, source
    document = parse_document(source, str(path))
    is_meant = (
        is_evalwright_suite(document) and _OF_TASKS.isdisjoint(document) and "defaults" in document
    )
    return (document if is_meant else None), source
