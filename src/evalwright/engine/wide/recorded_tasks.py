"""From recordings to tasks of a wide suite: what was asked, fixtures, and checks that hold of it.

A good answer is held to what is likely to stay. A case that failed becomes a task that cannot pass
before somebody has written what is right.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from evalwright.contracts.coverage import RECORDED, Coverage
from evalwright.contracts.marks import MARK_START
from evalwright.contracts.report import GRAVE
from evalwright.contracts.suite import MAX_TASK_ID, Expected, Fixtures, Task
from evalwright.contracts.yaml_writer import Noted
from evalwright.engine.examination import made_calls
from evalwright.engine.findings import invocation_signals
from evalwright.engine.recorded_traces import RECORDED_AGENT, is_good, recorded_events
from evalwright.engine.wide.ids import Ids, digest, row_id, slug
from evalwright.engine.wide.stable_parts import calls_to_expect, facts_in, stable_part
from evalwright.engine.wide.templates import BadTemplate, Templates
from evalwright.scoring.checks.base import Examined
from evalwright.scoring.checks.table import prepare_checks
from evalwright.signals.detect import detect
from evalwright.signals.masking import mask_text, mask_value
from evalwright.trace.decode import decode_trace
from evalwright.trace.model import ToolCall, Trace, text_of
from evalwright.trace.pairing import pair_results
from evalwright.trace.recording import Recording, turns_of, words_in

FAILED = "failed"
PLACEHOLDER = "TODO: write what is right here"
LIKENESS = 0.5  # to the recorded answer: the same words in part, as another day brings them
_MOST_WRONG = 3
_LONGEST_WRONG = 300
_WORDS_IN_ID = 6


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

    def __init__(self, *, masked: bool = True, with_system: bool = False) -> None:
        self._masked = masked
        self._with_system = with_system
        self._ids = Ids(str)
        self._count = 0

    def wrong_with(self, recording: Recording) -> tuple[str, ...]:
        """What went wrong in a recording, gravest first; nothing, if it is good."""
        found = [" ".join(each.split())[:_LONGEST_WRONG] for each in _wrong(recording)]
        return tuple(mask_text(each) if self._masked else each for each in found)

    def task(self, recording: Recording, wrong: Sequence[str]) -> MadeTask:
        """The task of a recording; raises `NoTask` if there cannot be one."""
        trace = self._shown_trace(recording)
        given = self._given(recording, trace)
        fixtures, unanswered = _fixtures(trace)
        document: dict[str, Any] = {"id": self.new_id(recording)}
        if wrong:
            document |= {"description": _described(wrong), "tags": [FAILED]}
        document["input"] = literal(given)
        if fixtures:
            document["fixtures"] = {"toolResponses": fixtures}
        if trace.output is not None and trace.failure is None:
            document["expected"] = literal(trace.output.content)
        document["checks"] = _failed_checks() if wrong else _checks(trace, recording, given)
        if wrong and "expected" in document:
            note = "What was answered; not what is right."
            document["expected"] = Noted(document["expected"], (note,))
        place = mask_text(recording.place) if self._masked else recording.place
        return MadeTask(document, (place,), tuple(wrong), unanswered, len(trace.retrievals))

    def _shown_trace(self, recording: Recording) -> Trace:
        if not self._masked:
            return recording.trace
        response = mask_value(recording.response)
        if not isinstance(response, dict):
            raise NoTask("it is nested too deeply for its secrets to be masked")
        return decode_trace(response, recording.name, mask_text(recording.prompt))

    def _given(self, recording: Recording, trace: Trace) -> Any:
        given = recording.given
        if given is msgspec.UNSET:
            given = input_of(trace, with_system=self._with_system)
        elif self._masked:
            given = mask_value(given)
        if not given:
            raise NoTask("what the user asked was not recorded")
        return given

    def new_id(self, recording: Recording) -> str:
        """An id that nothing but the case, or else what the user said, decides."""
        self._count += 1
        wanted = row_id(mask_text(recording.case_id)) if recording.case_id else None
        wanted = wanted or _id_of_words(mask_text(words_in(recording.trace)))
        wanted = wanted[: MAX_TASK_ID - 8].strip("-")  # with room for a number
        if self._ids.claim(wanted, self._count):
            return wanted
        return self._ids.numbered(wanted, self._count)


def _id_of_words(words: str) -> str:
    start = slug(" ".join(words.split()[:_WORDS_IN_ID]))[:40].strip("-")
    return f"{start}-{digest(words)[:6]}".lstrip("-")


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
    yield from _bad_calls(trace)
    if recording.passed is False:
        yield "it did not pass where it was recorded"


def _bad_calls(trace: Trace) -> Iterator[str]:
    """Errors of tools that no later call of the tool made good."""
    results = pair_results(trace)
    answered = [(call, results[call.index]) for call in trace.calls if call.index in results]
    last = {call.tool: result for call, result in answered}
    for tool, result in last.items():
        if not is_good(result):
            message = result.error or text_of(result.payload) or result.status
            yield f"{tool or 'a tool'} failed: {message}"


def _described(wrong: Sequence[str]) -> str:
    more = f"; and {len(wrong) - _MOST_WRONG} more" if len(wrong) > _MOST_WRONG else ""
    return f"What went wrong: {'; '.join(wrong[:_MOST_WRONG])}{more}"


def _last_calls(trace: Trace) -> list[ToolCall]:
    """The calls after the user's last words: those before are part of what is asked."""
    turns = turns_of(trace)
    start = turns[-1].index if turns else -1
    return [call for call in trace.calls if call.tool and call.index > start]


def _fixtures(trace: Trace) -> tuple[list[Any], int]:
    """What each tool answered, in order; and how many answers were not recorded.

    Tools that were not called any more after the user's last words answer what they did before.
    """
    results, last = pair_results(trace), _last_calls(trace)
    tools = {call.tool for call in last}
    calls = [call for call in trace.calls if call.tool and call.tool not in tools] + last
    found: list[Any] = []
    unanswered = 0
    for call in calls:
        result = results.get(call.index)
        if result is None:
            unanswered += 1
            entry: Any = {"tool": call.tool, "response": None}
            found.append(Noted(entry, ("No result was recorded.",)))
        elif is_good(result):
            found.append({"tool": call.tool, "response": _data(result.payload)})
        else:
            said = result.payload
            said = {"error": result.error or result.status} if said is None else said
            found.append(Noted({"tool": call.tool, "response": said}, ("Recorded as an error.",)))
    return found, unanswered


def _data(payload: Any) -> Any:
    """What a tool returned: logs of chats have its objects and lists as text."""
    if not isinstance(payload, str) or payload.lstrip()[:1] not in ("{", "["):
        return payload
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return payload


def _failed_checks() -> list[Any]:
    note = "It fails until you replace this: say what a right answer is, or does not do."
    return [Noted({"equals": PLACEHOLDER}, (note,)), {"no_signals": "high"}]


def _checks(trace: Trace, recording: Recording, given: Any) -> list[Any]:
    """Checks that hold of the recording itself, both as it is and as its fixtures tell it."""
    wanted = [*calls_to_expect(_last_calls(trace), trace), *_of_answer(trace)]
    kept = [_written(check) for check in wanted if _holds(check, trace, recording)]
    if not _is_suspect(trace, given) and not _is_suspect(recording.trace, given):
        kept.append({"no_signals": "high"})
    return kept or [{"regex": r"\S"}]


def _written(check: dict[str, Any]) -> Any:
    return check if "similar" in check else literal(check)


def _of_answer(trace: Trace) -> list[dict[str, Any]]:
    assert trace.output is not None
    content = trace.output.content
    told = "\n".join((trace.prompt, *trace.payload_texts))
    value = _as_object(content)
    if value is not None:
        part = stable_part(value, told)
        return [{"json": {"subset": part}}] if part else []
    facts = facts_in(text_of(content), trace)
    found: list[dict[str, Any]] = [{"contains_all": facts}] if facts else []
    if text_of(content).strip():
        found.append({"similar": {"to": "{{ expected }}", "at_least": LIKENESS}})
    return found


def _as_object(content: Any) -> Any:
    """An answer that is an object, or the text of one."""
    value = _data(content)
    return value if isinstance(value, dict) else None


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
        each.look(_examined(trace), {}).passed
        for each in prepared
        for trace in (shown, recording.trace)
    )


def _examined(trace: Trace) -> Examined:
    calls = made_calls(recorded_events(trace, "inv-0001", RECORDED_AGENT))
    output = trace.output.content if trace.output else None
    return Examined(output=output, calls=calls, coverage=Coverage(RECORDED, RECORDED))


def _is_suspect(trace: Trace, given: Any) -> bool:
    """Whether a run in which the agent does the same would have a grave signal."""
    task = Task("task", given, Expected("checks"), Fixtures())
    events = recorded_events(trace, "inv-0001", RECORDED_AGENT)
    return any(each.severity in GRAVE for each in invocation_signals(task, RECORDED_AGENT, events))


def literal(value: Any) -> Any:
    """A value as it stands in a suite: texts with braces of their own are no templates."""
    if isinstance(value, dict):
        return {key: literal(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [literal(each) for each in value]
    if not isinstance(value, str) or ("{{" not in value and "{%" not in value):
        return value
    raw = "{% raw %}" + value + "{% endraw %}"
    for written in (raw, _piecewise(value)):
        if _rendered(written) == value:
            return written
    raise NoTask("its text looks like a template, and cannot be written as anything else")


def _piecewise(text: str) -> str:
    """Each opening of a template as the value of an expression."""
    for mark, stand_in in (("{", "\0"), ("\0", '{{ "{" }}')):
        text = text.replace(mark, stand_in)
    return text + '{{ "" }}'


def _rendered(text: str) -> Any:
    try:
        render = Templates().compile(text)
        return render({}) if render else text
    except BadTemplate:
        return None
