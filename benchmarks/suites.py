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


def task(number: int) -> dict[str, Any]:
    question = f"question {number:06d}"
    match = {"strategy": "exact", "value": answer(question)}
    return {
        "taskId": f"t-{number:06d}",
        "input": {"q": question},
        "expected": {"kind": "golden", "match": match},
    }
