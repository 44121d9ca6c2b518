"""Suite files of any length, whose every task the measured agents pass."""

import json
from pathlib import Path
from typing import Any

from subjects import answer


def suite_file(folder: Path, tasks: int) -> Path:
    path = folder / f"suite-{tasks}.json"
    if not path.exists():
        path.write_text(json.dumps(suite(tasks)), encoding="utf-8")
    return path


def suite(tasks: int) -> dict[str, Any]:
    return {
        "suiteId": "local.bench.evals.instant",
        "version": "1.0.0",
        "modes": ["golden"],
        "tasks": [task(n) for n in range(tasks)],
    }


def checked_suite_file(folder: Path, tasks: int) -> Path:
    path = folder / f"checked-{tasks}.json"
    if not path.exists():
        made = [checked_task(n) for n in range(tasks)]
        document = {"evalwright": 1, "name": "bench", "tasks": made}
        path.write_text(json.dumps(document), encoding="utf-8")
    return path


def checked_task(number: int) -> dict[str, Any]:
    """Five checks; two of them are the task's own, the others are the same in all tasks."""
    question = f"question {number:06d}"
    return {
        "id": f"t-{number:06d}",
        "input": {"q": question},
        "checks": [
            {"contains": f"{number:06d}"},
            {"equals": answer(question)},
            {"regex": "[0-9]{6}"},
            {"not": {"contains": "sorry"}},
            {"max": {"latency_ms": 60_000, "cost_usd": 1}},
        ],
    }


def task(number: int) -> dict[str, Any]:
    question = f"question {number:06d}"
    match = {"strategy": "exact", "value": answer(question)}
    return {
        "taskId": f"t-{number:06d}",
        "input": {"q": question},
        "expected": {"kind": "golden", "match": match},
    }
