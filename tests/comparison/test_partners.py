"""Traces without a case id: which belong together, and how the report says so."""

import json
from pathlib import Path
from typing import Any

import pytest

from comparing import a_case, a_response, items_of
from evalwright.signals.scan import BaselineTraces
from evalwright.trace.importers.formats import import_responses
from subjects.command import Evalwright


def a_chat(trace: str, prompt: str, answer: str = "Done", **said: str) -> dict[str, Any]:
    """One call of a model, as a trace of its own."""
    turns = {
        "gen_ai.input.messages": ("user", prompt),
        "gen_ai.output.messages": ("assistant", answer),
    }
    told = {
        key: json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])
        for key, (role, text) in turns.items()
    }
    attributes = {"gen_ai.operation.name": "chat", **told, **said}
    return {"name": "chat", "traceId": trace, "spanId": f"s{trace}", "attributes": attributes}


def in_conversation(trace: str, conversation: str, prompt: str, **said: str) -> dict[str, Any]:
    return a_chat(trace, prompt, **{"gen_ai.conversation.id": conversation}, **said)


class Compared:
    """The report on two files of traces."""

    def __init__(self, evalwright: Evalwright) -> None:
        self._evalwright = evalwright

    def __call__(self, baseline: list[Any], new: list[Any], *more: str) -> dict[str, Any]:
        for name, records in (("old", baseline), ("new", new)):
            lines = "".join(f"{json.dumps(each)}\n" for each in records)
            (self._evalwright.folder / f"{name}.jsonl").write_text(lines)
        sides = ("--baseline", "old.jsonl", "--new", "new.jsonl", "--out", "report")
        self.done = self._evalwright("compare", *sides, *more)
        # Of traces without cases nothing is expected.
        assert self.done.code == (1 if "--cases" in more else 3), self.done.err
        self.items = items_of(self._evalwright.folder / "report")
        path = self._evalwright.folder / "report" / "compare-report.json"
        report: dict[str, Any] = json.loads(path.read_bytes())
        return report.get("pairing", {})


@pytest.fixture
def compared(evalwright: Evalwright) -> Compared:
    return Compared(evalwright)


def test_traces_are_paired_by_conversation_then_by_what_the_user_asked(
    compared: Compared, tmp_path: Path
) -> None:
    old = [in_conversation("1", "c", "Hello"), a_chat("2", "Where is it?"), a_chat("3", "Only old")]
    new = [a_chat("4", "Where  is\nit?"), in_conversation("5", "c", "Hi"), a_chat("6", "Only new")]
    pairing = compared(old, new, "--markdown", "summary.md")
    assert pairing["by"] == {"conversation": 1, "prompt": 1}
    assert (pairing["unpaired_baseline"], pairing["unpaired_new"]) == (1, 1)
    assert {key: item.get("paired_by") for key, item in compared.items.items()} == {
        "4": "prompt",
        "c": "conversation",
        "6": None,
        "3": None,
    }
    assert "faults" not in compared.items["4"]
    told = "paired: 1 by conversation, 1 by the user's prompt"
    assert told in compared.done.err
    for name in ("summary.md", "report/report.html"):
        text = (tmp_path / name).read_text("utf-8").replace("&#x27;", "'").replace("&#39;", "'")
        assert told in text, name


def test_traces_in_which_the_same_was_asked_are_repeats_of_one_case(compared: Compared) -> None:
    old = [a_chat(str(number), "Hello") for number in range(3)]
    new = [a_chat(str(number), "Hello") for number in range(10, 12)]
    assert compared(old, new)["by"] == {"prompt": 1}
    assert compared.items["10"]["repeats"]["baseline"]["runs"] == 3
    assert compared.items["10"]["repeats"]["new"]["runs"] == 2


def test_a_case_id_decides_before_anything_else(compared: Compared) -> None:
    old = [a_chat("1", "Hello", **{"evalwright.case_id": "a"})]
    new = [a_chat("2", "Hello", **{"evalwright.case_id": "b"})]
    assert compared(old, new) == {}
    assert sorted(compared.items) == ["a", "b"]


def test_the_prompts_of_a_case_file_name_the_cases(compared: Compared, tmp_path: Path) -> None:
    (tmp_path / "cases.json").write_text(
        json.dumps([a_case("greet", "Hello", must_include=["Hi"])])
    )
    files = ("--cases", "cases.json")
    pairing = compared([a_chat("1", "Hello", "Hi")], [a_chat("2", "Hello", "Go away")], *files)
    assert pairing["by"] == {"case_file": 1}
    assert compared.items["greet"]["change"] == "regression"


def test_a_conversation_may_have_the_id_of_a_case_on_the_other_side(compared: Compared) -> None:
    pairing = compared([a_response(case_id="c")], [in_conversation("5", "c", "Hello")])
    assert pairing["by"] == {"conversation": 1}
    assert list(compared.items) == ["c"]


def test_records_of_messages_are_paired_by_what_was_asked_if_their_places_differ(
    compared: Compared,
) -> None:
    def a_log(prompt: str) -> dict[str, Any]:
        return {
            "messages": [{"role": "user", "content": prompt}, {"role": "assistant", "content": "x"}]
        }

    pairing = compared([a_log("a"), a_log("b"), a_log("c")], [a_log("b"), a_log("a"), a_log("z")])
    assert pairing["by"] == {"prompt": 2, "place": 1}
    prompts = {"record-1": "prompt", "record-2": "prompt", "record-3": "place"}
    assert {key: item["paired_by"] for key, item in compared.items.items()} == prompts


def test_a_later_turn_is_another_case_than_the_first(compared: Compared) -> None:
    old = [in_conversation("1", "a", "Hello"), in_conversation("2", "a", "Yes")]
    new = [in_conversation("3", "b", "Hello"), in_conversation("4", "b", "Yes")]
    new += [in_conversation("5", "d", "Yes")]
    pairing = compared(old, new)
    assert pairing["by"] == {"prompt": 2}
    assert pairing["unpaired_new"] == 1


def test_a_scan_finds_the_baseline_by_what_was_asked() -> None:
    def lines(*records: dict[str, Any]) -> list[bytes]:
        return [json.dumps(each).encode() + b"\n" for each in records]

    baselines = BaselineTraces(lines(a_chat("1", "Hello"), a_chat("2", "Bye")), "old.jsonl")
    found = import_responses(lines(a_chat("8", "Bye"), a_chat("9", "Other")), "new.jsonl")
    traces = [baselines.of(each) for each in found]
    assert [trace and trace.prompt for trace in traces] == ["Bye", None]
    assert (baselines.paired, baselines.by_prompt) == (1, 1)
