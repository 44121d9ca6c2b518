"""Checking documents that others wrote: which contract is it, and does it hold."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from evalwright.contracts.documents import parse_document, to_json
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.events import (
    PAYLOADS,
    TERMINAL_TYPES,
    Envelope,
    EvalScored,
    InvocationCompleted,
    InvocationStarted,
)
from evalwright.contracts.jsonvalue import NotJson, parse
from evalwright.contracts.manifest import parse_manifest
from evalwright.contracts.schema import PROMPT_RESULT, RUN_EVENT, SUMMARY, check_schema
from evalwright.contracts.suite import Thresholds, is_evalwright_suite
from evalwright.contracts.tools import parse_tools
from evalwright.scoring.golden import check_suite

SUITE_KIND = "AgentEvalSuite"
OWN_KIND = "suite"
_SUMMARY_KEYS = {"aggregateScore", "passedCount", "suiteVersion"}
_MANIFEST_KEYS = {"persona", "systemPrompt", "systemPromptRef"}


def check_file(source: bytes, name: str, notes: list[str] | None = None) -> str:
    """The kind of a valid document; raises `InvalidDocument` with all its problems.

    `notes` takes what its author should know.
    """
    if name.lower().endswith((".jsonl", ".ndjson")):
        kind, problems = "event log", check_events(to_json(source, name).splitlines(), "line")
    else:
        document = parse_document(source, name)
        first = document[0] if isinstance(document, list) and document else document
        if isinstance(first, dict) and "eval_id" in first:
            kind, problems = "prompt result", check_prompt_results(document)
        elif isinstance(document, list):
            lines = [msgspec.json.encode(event) for event in document]
            kind, problems = "event log", check_events(lines, "event")
        elif is_evalwright_suite(document):
            kind, problems = OWN_KIND, check_evalwright_suite(document, source, name, notes)
        elif isinstance(document, dict) and _SUMMARY_KEYS & document.keys():
            kind, problems = "EvalSummary", check_summary(document)
        elif isinstance(document, dict) and _MANIFEST_KEYS & document.keys():
            parse_manifest(source, name)
            kind, problems = "AgentManifest", []
        elif (
            isinstance(document, dict)
            and not document.keys().isdisjoint({"tools", "mcp"})
            and "suiteId" not in document
        ):
            parse_tools(source, name)
            kind, problems = "tools file", []
        else:
            from evalwright.engine.suites.problems import placed

            kind, problems = SUITE_KIND, placed(check_suite(document), source, document)
    if problems:
        raise InvalidDocument(name, problems)
    return kind


def check_evalwright_suite(
    document: Any, source: bytes, name: str, notes: list[str] | None = None
) -> list[Problem]:
    """Every rule that a suite breaks, its data and its references among them, by line."""
    from evalwright.engine.suites.document import suite_problems
    from evalwright.engine.suites.problems import missing_agent, placed
    from evalwright.scoring.earlier_rule import EarlierRule  # with all checks

    agent, problems = document.get("agent"), list[Problem]()
    agent = agent.get("ref") if isinstance(agent, dict) else agent
    if isinstance(agent, str) and (missing := missing_agent(agent, Path(name).parent)):
        problems = [Problem("$.agent", missing.message, missing.remedy)]
    rule = EarlierRule()
    problems = placed(problems, source, document)
    problems += suite_problems(document, source, name, None if notes is None else rule.add)
    if notes is not None and not problems:
        bars = msgspec.convert(document.get("thresholds", {}), Thresholds, strict=False)
        notes += filter(None, [rule.note(bars)])
    return problems


def check_prompt_results(document: Any) -> list[Problem]:
    """Every rule that the records break."""
    if not isinstance(document, list):
        return check_schema(document, PROMPT_RESULT)
    return [
        problem.below(f"$[{place}]")
        for place, record in enumerate(document)
        for problem in check_schema(record, PROMPT_RESULT)
    ]


def check_summary(document: Any) -> list[Problem]:
    """The schema, and what the numbers of a summary must say of each other."""
    problems = check_schema(document, SUMMARY)
    if problems:
        return problems
    tasks = document["tasks"]
    passed = sum(task["passed"] for task in tasks)
    if document["taskCount"] != len(tasks):
        message = f"is {document['taskCount']}, but there are {len(tasks)} tasks"
        problems.append(Problem("$.taskCount", message))
    if document["passedCount"] != passed:
        message = f"is {document['passedCount']}, but {passed} tasks passed"
        problems.append(Problem("$.passedCount", message))
    if len({task["taskId"] for task in tasks}) != len(tasks):
        problems.append(Problem("$.tasks", "duplicate taskId"))
    return problems


def check_events(lines: Iterable[bytes], noun: str) -> list[Problem]:
    """Each an event, one run, no gap, one end, brackets closed, one score per task."""
    checker = LogChecker()
    for number, line in enumerate(lines, 1):
        if line.strip():
            checker.add(line, f"{noun} {number}")
    return checker.finish()


class LogChecker:
    """Checks the events of one run, line by line."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._run_id: str | None = None
        self._expected = 0
        self._end: str | None = None
        self._scored: set[str] = set()
        self._open: dict[str, str] = {}
        self._event_ids: set[str] = set()

    def add(self, line: bytes, where: str) -> None:
        try:
            event = parse(line)
        except NotJson as error:
            self._add(where, f"not valid JSON: {error.reason}")
            return
        broken = check_schema(event, RUN_EVENT)
        if broken:
            self.problems += [Problem(f"{where} {p.path}", p.message, p.remedy) for p in broken]
            return
        self._run_id = self._run_id or event["runId"]
        if event["runId"] != self._run_id:
            self._add(where, f"runId is {event['runId']!r}, the log is of {self._run_id!r}")
        if event["eventId"] in self._event_ids:
            self._add(where, f"duplicate eventId {event['eventId']!r}")
        self._event_ids.add(event["eventId"])
        if event["sequence"] != self._expected:
            self._add(where, f"sequence is {event['sequence']}, expected {self._expected}")
        self._expected = event["sequence"] + 1
        if self._end is not None:
            self._add(where, f"{event['type']} comes after {self._end}, which ends a run")
        if event["type"] in TERMINAL_TYPES:
            self._end = event["type"]
        if self._payload_fits(line, event["type"], where):
            payload = event["payload"]
            match event["type"]:
                case EvalScored.TYPE:
                    task_id = payload["taskId"]
                    if task_id in self._scored:
                        self._add(where, f"task {task_id!r} has two eval.scored events")
                    self._scored.add(task_id)
                case InvocationStarted.TYPE:
                    self._open[payload["invocationId"]] = where
                case InvocationCompleted.TYPE:
                    if self._open.pop(payload["invocationId"], None) is None:
                        self._add(
                            where, f"invocation {payload['invocationId']!r} was never started"
                        )

    def finish(self) -> list[Problem]:
        if self._expected == 0 and not self.problems:
            self._add("line 1", "the log is empty")
        if self._end == "run.completed":
            for invocation, where in self._open.items():
                self._add(where, f"invocation {invocation} has no agent.invocation.completed")
        return self.problems

    def _add(self, where: str, message: str) -> None:
        self.problems.append(Problem(where, message))

    def _payload_fits(self, line: bytes, event_type: str, where: str) -> bool:
        kind = PAYLOADS.get(event_type)
        if kind is None:
            return True
        try:
            envelope = msgspec.json.decode(line, type=Envelope, strict=False)
            msgspec.json.decode(envelope.payload, type=kind)
        except msgspec.ValidationError as error:
            self._add(f"{where} $.payload", str(error))
            return False
        return True
