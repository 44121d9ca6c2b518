"""One run of pydantic-evals, inside its own environment; prints one JSON line about it."""

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected
from pydantic_evals.reporting import EvaluationReport

PAUSE = 0.05


def instant(question: str) -> str:
    return question.upper()


async def instant_async(question: str) -> str:
    return question.upper()


def pause(question: str) -> str:
    time.sleep(PAUSE)
    return question.upper()


async def pause_async(question: str) -> str:
    await asyncio.sleep(PAUSE)
    return question.upper()


Subject = Callable[[str], str | Awaitable[str]]
SUBJECTS: dict[str, Subject] = {f.__name__: f for f in (instant, instant_async, pause, pause_async)}


def dataset(tasks: int) -> Dataset[str, str, Any]:
    questions = [f"question {n:06d}" for n in range(tasks)]
    cases = [Case(name=q, inputs=q, expected_output=q.upper()) for q in questions]
    return Dataset(name="bench", cases=cases, evaluators=[EqualsExpected()])


def passed(report: EvaluationReport[str, str, Any]) -> int:
    return sum(
        1
        for case in report.cases
        if case.assertions and all(result.value is True for result in case.assertions.values())
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--tasks", type=int, required=True)
    parser.add_argument("--concurrency", type=int)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    cases = dataset(args.tasks)
    begun = time.monotonic()
    report = cases.evaluate_sync(
        SUBJECTS[args.subject], max_concurrency=args.concurrency, progress=False
    )
    seconds = time.monotonic() - begun
    print(json.dumps({"passed": passed(report), "seconds": seconds}))


if __name__ == "__main__":
    main()
