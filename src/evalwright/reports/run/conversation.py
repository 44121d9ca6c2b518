"""A task as a conversation: what was asked, what the agent did and thought, and what it answered.

Calls stand between question and answer with their results; what speaks against the agent, a
finding or a failed check, stands at the step that shows it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from evalwright.contracts import amounts
from evalwright.contracts.attachments import attachments_in, is_content
from evalwright.contracts.events import (
    Checked,
    Decided,
    Event,
    InvocationCompleted,
    InvocationStarted,
    ProviderUsage,
    Reasoned,
    RowChange,
    ToolCalled,
    ToolReturned,
    UserSaid,
    WorldChanged,
    repetition_of,
)
from evalwright.contracts.verdicts import CheckResult
from evalwright.reports.design.talk import Attachment, FailedCheck, Remark, TalkStep
from evalwright.reports.formats.text import shortened, shown
from evalwright.reports.formats.words import in_words
from evalwright.reports.run.evidence import EvidentFinding

LONG = 4000  # characters of a payload that is part of the page; the rest comes on demand
_LINE = 160  # of arguments beside a folded call
_GRAVE = ("critical", "high")


def conversation_of(
    asked: Any,
    events: Iterable[Event],
    findings: Sequence[EvidentFinding] = (),
    *,
    agent: str = "Agent",
    address: str = "",
    longest: int = LONG,
) -> list[TalkStep]:
    """The steps of a task from its events, which may be shown as they are.

    `address` is that of the task, from where payloads come on demand that are longer than
    `longest`.
    """
    talk = _ConversationReader(agent, address, _by_step(findings), longest)
    talk.ask(asked)
    for event in events:
        try:
            talk.add(event)
        except msgspec.MsgspecError:
            talk.steps.append(TalkStep("note", f"s{event.sequence}", "An event cannot be read."))
    return talk.steps


def step_address(address: str, sequence: int) -> str:
    """The address of a step of a task, on whichever part of its page it is."""
    return f"{address}?step={sequence}#s{sequence}"


def readable(value: Any) -> str:
    """A value as people read it: a text as it is, the only text of an object, else JSON."""
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if is_content(value):
        return "\n\n".join(map(_told_part, value))
    return readable_json(value)


def _told_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    [value] = part.values()
    return f"[{value.get('name', '')}]" if isinstance(value, dict) else str(value)


def readable_json(value: Any) -> str:
    """A text as it is, everything else as indented JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError):
        return shown(value)


def messages_of(asked: Any) -> list[tuple[str, str]]:
    """What was said before the agent answers, as role and text; nothing unless it is messages."""
    if isinstance(asked, dict) and list(asked) == ["messages"]:
        asked = asked["messages"]
    if not isinstance(asked, list):
        return []
    said = [
        (each["role"], readable(each.get("content", "")))
        for each in asked
        if isinstance(each, dict) and isinstance(each.get("role"), str)
    ]
    return said if len(said) == len(asked) else []


def opening_of(asked: Any) -> str:
    """What a user begins with, and how many messages follow."""
    said = messages_of(asked)
    if not said:
        return readable(asked)
    first = next((text for role, text in said if role == "user"), said[0][1])
    if len(said) == 1:
        return first
    return f"{first}\n(the first of {len(said):,} messages)"


def _by_step(findings: Sequence[EvidentFinding]) -> dict[int | None, list[Remark]]:
    """Findings by the event that shows them best: the last one of their evidence."""
    found: dict[int | None, list[Remark]] = {}
    for each in findings:
        places = [link.sequence for link in each.links if link.sequence is not None]
        title = each.title or f"{in_words(each.kind)}, by a judge"
        found.setdefault(max(places, default=None), []).append(
            Remark(each.severity, title, each.notes)
        )
    return found


def _files(content: Any, address: str) -> list[Attachment]:
    """What came with a message; it is shown by the page of its task."""
    return [
        Attachment(
            kind,
            str(each.get("name", kind)),
            f"{each.get('type', '')}, {each.get('bytes', 0):,} bytes",
            f"{address}/attachments/{each.get('sha256', '')}" if address else "",
        )
        for kind, each in attachments_in(content)
    ]


class _ConversationReader:
    def __init__(
        self,
        agent: str,
        address: str,
        findings: Mapping[int | None, list[Remark]],
        longest: int,
    ) -> None:
        self._longest = longest
        self.steps: list[TalkStep] = []
        self._agent = agent
        self._address = address
        self._findings = findings
        self._calls: dict[str, TalkStep] = {}
        self._answer: TalkStep | None = None
        self._decision: Any = None  # as it was recorded
        self._next: TalkStep | None = None  # what the user says next, if it is asked
        self._turns: list[str] = []  # what the user says later in a conversation
        self._answers: dict[int, TalkStep] = {}  # by the turn of a conversation
        self._started_us = 0
        self._usage: list[ProviderUsage] = []  # of models, since the last word of the agent
        self._usage_of_user: list[ProviderUsage] = []  # of the model that plays the user

    def ask(self, asked: Any) -> None:
        """What is said before the agent answers: of a conversation in turns, the first message."""
        said = messages_of(asked) or [("user", readable(asked))]
        if isinstance(asked, list) and {role for role, _ in said} == {"user"}:
            self._turns = [text for _, text in said[1:]]
            said = said[:1]
        is_said = isinstance(asked, dict) and messages_of(asked)
        contents = [each.get("content") for each in asked["messages"]] if is_said else [asked]
        for number, (role, text) in enumerate(said):
            files = _files(contents[number], self._address) if number < len(contents) else ()
            kind: Literal["user", "agent"] = "agent" if role == "assistant" else "user"
            place = f"asked{number}" if number else "asked"
            by = in_words(role).capitalize()
            self.steps.append(TalkStep(kind, place, text, by=by, files=files))

    def add(self, event: Event) -> None:
        if event.type == InvocationStarted.TYPE:
            self._started_us = self._started_us or event.at_us
            number = repetition_of(event.decode(InvocationStarted).invocation_id)
            if number > 1:
                self.steps.append(TalkStep("note", f"s{event.sequence}", f"Repetition {number}"))
        elif event.type == ProviderUsage.TYPE:
            usage = event.decode(ProviderUsage)
            (self._usage_of_user if usage.is_of_user else self._usage).append(usage)
        elif event.type == UserSaid.TYPE:
            self._said(event, event.decode(UserSaid))
        elif event.type == Reasoned.TYPE:
            text = event.decode(Reasoned).reasoning
            line = " ".join(text[: 2 * _LINE].split())[:_LINE]
            thought, more = self._payload(event.sequence, text)
            self._add(
                event, TalkStep("thought", "", thought or "", name="Thought", args=line, more=more)
            )
        elif event.type == ToolCalled.TYPE:
            self._call(event, event.decode(ToolCalled))
        elif event.type == ToolReturned.TYPE:
            self._result(event, event.decode(ToolReturned))
        elif event.type == WorldChanged.TYPE:
            for change in event.decode(WorldChanged).changes:
                self.steps.append(TalkStep("note", f"s{event.sequence}", _told_change(change)))
        elif event.type == Decided.TYPE:
            self._answered(event, event.decode(Decided))
        elif event.type == InvocationCompleted.TYPE and self._answer is not None:
            self._ended(self._answer, event.decode(InvocationCompleted))
        elif event.type == Checked.TYPE and self._answer is not None:
            for each in (each for each in event.decode(Checked).checks if not each.passed):
                step = self._answers.get(each.turn or 0, self._answer)
                step.failed = [*step.failed, FailedCheck(in_words(each.check), _why(each))]
                step.bad = True

    def _add(self, event: Event, step: TalkStep) -> None:
        step.id = f"s{event.sequence}"
        step.link = step_address(self._address, event.sequence) if self._address else ""
        step.findings = self._findings.get(event.sequence, ())
        step.bad = step.bad or any(each.severity in _GRAVE for each in step.findings)
        step.is_open = step.is_open or step.bad
        self.steps.append(step)

    def _call(self, event: Event, called: ToolCalled) -> None:
        sent = None if called.inputs is UNSET else readable_json(called.inputs)
        args = "" if sent is None else " ".join(shown(called.inputs)[: 2 * _LINE].split())[:_LINE]
        step = TalkStep("call", "", name=called.tool_name, args=args)
        step.sent, step.more = self._payload(event.sequence, sent)
        self._calls[called.call_id] = step
        self._add(event, step)

    def _result(self, event: Event, came: ToolReturned) -> None:
        step = self._calls.pop(came.call_id, None)
        if step is None:
            step = TalkStep("call", "", name=came.tool_name, badge="result without a call")
            self._add(event, step)
        if came.outcome is not UNSET:
            step.returned, more = self._payload(int(step.id[1:]), readable_json(came.outcome))
            step.more = more or step.more
        if came.error is not UNSET:
            step.error = f"{came.error.code}: {came.error.message}"
        if came.error is not UNSET or came.status not in (UNSET, "ok"):
            step.badge = "Failed" if came.status is UNSET else in_words(came.status).capitalize()
            step.bad = step.is_open = True
        if came.fault is not UNSET:
            step.badge = f"{step.badge or 'Answered'}, by the fault {in_words(came.fault)}"
            step.is_open = True
        if came.duration_ms is not UNSET:
            step.cost = amounts.span(came.duration_ms)
        remarks = self._findings.get(event.sequence, [])
        step.findings = [*step.findings, *remarks]
        if remarks:
            step.bad = step.bad or any(each.severity in _GRAVE for each in remarks)
            step.is_open = True

    def _answered(self, event: Event, decided: Decided) -> None:
        text, more = self._payload(event.sequence, readable(decided.decision))
        step = TalkStep("agent", "", text or "", by=self._agent, more=more)
        took = ""
        if self._started_us:
            took = amounts.span((event.at_us - self._started_us) / 1000)
        step.facts, self._usage = _facts(self._usage, took), []
        self._answer, self._decision = step, decided.decision
        self._add(event, step)
        step.findings = [*step.findings, *self._findings.get(None, ())]
        if decided.turn is not None:
            self._answers[decided.turn] = step
            if self._next is not None and 1 < decided.turn <= len(self._turns) + 1:
                self._next.text = self._turns[decided.turn - 2]  # turns may have been passed over
            self._next = None
            if decided.turn <= len(self._turns):
                said = self._turns[decided.turn - 1]
                self._next = TalkStep("user", f"turn{decided.turn + 1}", said, by="User")
                self.steps.append(self._next)

    def _said(self, event: Event, said: UserSaid) -> None:
        if self.steps and self.steps[0].id == "asked":
            goal = TalkStep("note", "goal", f"The user wants: {self.steps[0].text}")
            self.steps[0] = goal
        if said.text:
            step = TalkStep("user", "", said.text, by="User, played by a model")
            if said.model is None:
                step.by = "User"
            step.facts, self._usage_of_user = _facts(self._usage_of_user), []
            self._add(event, step)
        for fault in said.faults or ():
            remark = f"The simulated user: {in_words(fault)}. The task is not evaluated."
            self.steps.append(TalkStep("note", f"s{event.sequence}", remark))
        if said.ends is not None:
            ended = f"The user ends the conversation: {in_words(said.ends)}."
            self.steps.append(TalkStep("note", f"s{event.sequence}", ended))

    def _ended(self, step: TalkStep, completed: InvocationCompleted) -> None:
        """Of an invocation that failed, an error stands in place of the answer."""
        error = self._decision.get("error") if isinstance(self._decision, dict) else None
        if completed.outcome != "failed" or not isinstance(error, dict):
            return
        step.kind, step.name, step.badge, step.cost = "error", step.by, "No answer", step.facts
        step.bad = step.is_open = True
        step.error = f"{error.get('code')}: {error.get('message', '')}"
        if details := error.get("details"):
            step.returned, step.more = self._payload(int(step.id[1:]), readable(details))

    def _payload(self, sequence: int, text: str | None) -> tuple[str | None, str]:
        if text is None or len(text) <= self._longest:
            return text, ""
        more = f"{self._address}/steps/{sequence}" if self._address else ""
        return shortened(text, self._longest), more


def _facts(usages: Sequence[ProviderUsage], took: str = "") -> str:
    """Which models were asked for a message, and what that took."""
    facts = [*dict.fromkeys(each.model for each in usages), *filter(None, [took])]
    if usages:
        tokens = sum(each.input_tokens + each.output_tokens for each in usages)
        facts.append(f"{tokens:,} tokens")
        costs = [each.cost_estimate_usd for each in usages]
        known = [cost for cost in costs if cost is not None]
        if len(known) == len(costs):
            facts.append(amounts.dollars(sum(known)))
    return " · ".join(facts)


def _told_change(change: RowChange) -> str:
    """A change of a world in words."""
    before, after = (
        "" if each is UNSET else shortened(each, _LINE) for each in (change.before, change.after)
    )
    if not before:
        return f"New in {change.collection}: {after}"
    if not after:
        return f"Removed from {change.collection}: {before}"
    return f"Changed in {change.collection}: {before} became {after}"


def _why(check: CheckResult) -> str:
    return check.reason or f"expected {shortened(check.expected, _LINE)}"
