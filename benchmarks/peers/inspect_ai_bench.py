"""One run of inspect-ai, inside its own environment; prints one JSON line about it."""

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval  # noqa: A004
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import EvalLog, read_eval_log, read_eval_log_sample_summaries
from inspect_ai.model import ChatMessage, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import CORRECT, match
from inspect_ai.solver import generate

PAUSE = 0.05
MODEL = "mockllm/model"


def answer(messages: list[ChatMessage]) -> ModelOutput:
    output = ModelOutput.from_content(MODEL, messages[-1].text.upper())
    # Without a usage the mock model counts tokens, work that a real provider does for the caller.
    output.usage = ModelUsage()
    return output


async def instant(messages: list[ChatMessage], *_: object) -> ModelOutput:
    return answer(messages)


async def pause(messages: list[ChatMessage], *_: object) -> ModelOutput:
    await asyncio.sleep(PAUSE)
    return answer(messages)


def task(tasks: int) -> Task:
    questions = [f"question {n:06d}" for n in range(tasks)]
    samples = [Sample(id=q.replace(" ", "-"), input=q, target=q.upper()) for q in questions]
    return Task(
        name="bench",
        dataset=MemoryDataset(samples),
        solver=generate(),
        scorer=match(location="exact", ignore_case=False),
    )


def accuracy(log: EvalLog) -> float:
    assert log.results is not None, log.error
    return log.results.scores[0].metrics["accuracy"].value


def passed(log: EvalLog) -> int:
    assert log.status == "success", log.error
    assert log.results is not None
    return round(accuracy(log) * log.results.completed_samples)


def run(args: argparse.Namespace) -> dict[str, Any]:
    outputs = {"instant": instant, "pause": pause}[args.action]
    limits = (
        {"max_samples": args.concurrency, "max_connections": args.concurrency}
        if args.concurrency
        else {}
    )
    subject = task(args.tasks)
    begun = time.monotonic()
    [log] = eval(
        subject,
        model=get_model(MODEL, custom_outputs=outputs),
        display="none",
        log_dir=str(args.log_dir),
        # As `inspect eval` does: the samples are not read back once they are written.
        log_header_only=True,
        **limits,
    )
    return {"passed": passed(log), "seconds": time.monotonic() - begun}


def read(args: argparse.Namespace) -> dict[str, Any]:
    begun = time.monotonic()
    log = read_eval_log(log_file(args.log_dir))
    seconds = time.monotonic() - begun
    assert len(log.samples or []) == args.tasks
    return {"passed": passed(log), "seconds": seconds}


def read_scores(args: argparse.Namespace) -> dict[str, Any]:
    begun = time.monotonic()
    summaries = read_eval_log_sample_summaries(log_file(args.log_dir))
    seconds = time.monotonic() - begun
    scores = [score.value for summary in summaries for score in (summary.scores or {}).values()]
    return {"passed": scores.count(CORRECT), "seconds": seconds}


def log_file(folder: Path) -> str:
    [path] = folder.glob("*.eval")
    return str(path)


ACTIONS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "instant": run,
    "pause": run,
    "read": read,
    "read-scores": read_scores,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=ACTIONS)
    parser.add_argument("--tasks", type=int, required=True)
    parser.add_argument("--concurrency", type=int)
    parser.add_argument("--log-dir", type=Path, required=True)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    print(json.dumps(ACTIONS[args.action](args)))


if __name__ == "__main__":
    main()
