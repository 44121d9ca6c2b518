"""Builders for comparisons: responses, cases, and pairs of run directories on disk."""

import json
from pathlib import Path

from evalwright.trace.decode import decode_trace

START = 1_700_000_000_000


def a_call(tool="look_up", call_id="c1", ts=START, **args):
    return {"type": "tool_call", "ts": ts, "call_id": call_id, "tool": tool, "args": args}


def a_result(payload=None, call_id="c1", status="ok", ts=START + 10, **more):
    return {
        "type": "tool_result",
        "ts": ts,
        "call_id": call_id,
        "status": status,
        "payload_summary": payload if payload is not None else {"ok": True},
        **more,
    }


def an_output(content="done", ts=START + 20):
    kind = "text" if isinstance(content, str) else "json"
    return {"type": "final_output", "ts": ts, "content_type": kind, "content": content}


def a_retrieval(*doc_ids, query="policy", ts=START):
    return {"type": "retrieval", "ts": ts, "query": query, "doc_ids": list(doc_ids)}


def an_action(action_type="create_ticket", risk_level="medium", evidence=(), action_id="a1"):
    return {
        "action_id": action_id,
        "action_type": action_type,
        "tool_name": action_type,
        "params": {},
        "risk_level": risk_level,
        "risk_tags": [],
        "evidence_refs": list(evidence),
    }


def a_response(*events, case_id="one", output="done", actions=(), **more):
    """A whole response; without events, one call that was answered, and the output."""
    recorded = list(events) or [a_call(), a_result()]
    recorded.append(an_output(output))
    return {
        "case_id": case_id,
        "version": "new",
        "proposed_actions": list(actions),
        "final_output": {"content_type": recorded[-1]["content_type"], "content": output},
        "events": recorded,
        **more,
    }


def a_failure(kind="http_error", case_id="one", **more):
    failure = {"class": kind, "attempt": 1, "is_transient": True, **more}
    return {"case_id": case_id, "proposed_actions": [], "events": [], "runner_failure": failure}


def a_trace(*events, prompt="", **more):
    return decode_trace(a_response(*events, **more), "one", prompt)


def a_case(case_id="one", user="Please help", **expected):
    return {
        "id": case_id,
        "title": f"Case {case_id}",
        "input": {"user": user},
        "expected": expected,
    }


class Pair:
    """Two run directories and their cases, as an agent's runner leaves them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.baseline = folder / "baseline"
        self.new = folder / "new"
        self.cases: list = []
        for side in (self.baseline, self.new):
            side.mkdir(parents=True)
            self.write(side, "run", {"run_id": f"run-{side.name}", "cases_path": "cases.json"})

    def write(self, side: Path, name: str, content) -> Path:
        path = side / f"{name}.json"
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        path.write_bytes(data)
        return path

    def add(self, case, baseline=None, new=None) -> None:
        """A case with the response of each side; None leaves a side without one."""
        self.cases.append(case)
        for side, response in ((self.baseline, baseline), (self.new, new)):
            if response is not None:
                self.write(side, case["id"], response)
        self.save()

    def save(self) -> Path:
        path = self.folder / "cases.json"
        path.write_text(json.dumps(self.cases))
        return path


def items_of(report: Path) -> dict:
    """The items of a report by their case id."""
    document = json.loads((report / "compare-report.json").read_bytes())
    return {item["case_id"]: item for item in document["items"]}


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its relative path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
