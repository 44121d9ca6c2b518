"""What judging prompts adds to the time that a judge takes: 200 files, 8 at a time.

    python benchmarks/prompteval_judge/bench.py [--files 200] [--concurrency 8] [--latency-ms 200]

The judge is a model in this process that waits and then answers by the schema it is given, with
token probabilities. The ideal is the latency times the number of rounds; the bar is 1.1 times that.
Evaluation steps are stored beforehand, as they are for every library but the first one; with
`--generate` they are made within the measured time, which is one more round.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from functools import cache
from math import ceil, log
from pathlib import Path

from evalwright.contracts.events import ProviderUsage
from evalwright.models.protocol import Reply, Request, TokenLogprob
from evalwright.prompts.document import Prompt
from evalwright.prompts.geval.judgement import GEval, JudgeSettings
from evalwright.prompts.geval.questions import CRITERIA
from evalwright.prompts.geval.steps import MemorySteps, StepsKey

RESULTS = Path(__file__).resolve().parents[1] / "results" / "prompteval_judge.json"
BAR = 1.1
TEXT = "Read the report below and list every risk it names, one for each line.\n" * 110
USAGE = ProviderUsage("bench", "judge", 3000, 400)
SCORE = TokenLogprob("7", log(0.6), (("7", log(0.6)), ("8", log(0.3)), ("6", log(0.1))))


class WaitingJudge:
    name = "bench:judge"

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s

    async def ask(self, request: Request) -> Reply:
        await asyncio.sleep(self._latency_s)
        assert request.output is not None
        if request.output.name == "evaluation_steps":
            return Reply('{"steps":["Read it.","Score it."]}', "stop", USAGE)
        tokens = _tokens(tuple(request.output.schema["properties"]))
        return Reply("".join(token.token for token in tokens), "stop", USAGE, logprobs=tokens)

    async def close(self) -> None:
        pass


@cache
def _tokens(names: tuple[str, ...]) -> tuple[TokenLogprob, ...]:
    """A reply of some 400 tokens, the likeliest five at each."""
    tokens = [_certain("{")]
    for name in names:
        if name in CRITERIA:
            words = ["It", *[" names"] * 40, " it", "."]
            tokens += map(_certain, [f'"{name}":', '{"reason":"', *words, '","score":'])
            tokens += [SCORE, _certain("}"), _certain(",")]
    tokens += map(_certain, ['"summary":"', "A", " fair", " prompt", '","overall":', "7", "}"])
    return tuple(tokens)


def _certain(text: str) -> TokenLogprob:
    others = tuple((other, -9.0) for other in ("a", "b", "c", "d"))
    return TokenLogprob(text, -0.001, ((text, -0.001), *others))


def main() -> None:
    options = _options()
    latency_s = options.latency_ms / 1000
    store = MemorySteps()
    if not options.generate:
        for name in CRITERIA:
            store.add(StepsKey(name, WaitingJudge.name), ("Read it.", "Score it."))
    geval = GEval(WaitingJudge(latency_s), store, JudgeSettings())
    began, cpu = time.perf_counter(), time.process_time()
    judged = asyncio.run(_judge_all(geval, options.files, options.concurrency))
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    assert judged == options.files
    ideal = latency_s * (ceil(options.files / options.concurrency) + int(options.generate))
    figure = {
        "files": options.files,
        "concurrency": options.concurrency,
        "latency_ms": options.latency_ms,
        "wall_s": round(wall, 3),
        "ideal_s": round(ideal, 3),
        "ratio": round(wall / ideal, 3),
        "bar": BAR,
        "cpu_ms_per_file": round(cpu * 1000 / options.files, 3),
    }
    print(json.dumps(figure, indent=2))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(figure, indent=2) + "\n")
    if wall > BAR * ideal:
        raise SystemExit(f"over the bar: {wall / ideal:.3f} times the ideal")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--latency-ms", type=float, default=200)
    parser.add_argument("--generate", action="store_true")
    return parser.parse_args()


async def _judge_all(geval: GEval, files: int, concurrency: int) -> int:
    pending = iter(range(files))
    return sum(await asyncio.gather(*(_work(geval, pending) for _ in range(concurrency))))


async def _work(geval: GEval, pending: Iterator[int]) -> int:
    done = 0
    for number in pending:
        made = await geval.judge(_prompt(number), 1)
        assert made.method == "probabilities"
        assert abs(made.overall - 7.2) < 1e-9
        done += 1
    return done


def _prompt(number: int) -> Prompt:
    text = f"# Prompt {number}\n\n{TEXT}"
    return Prompt(f"prompts/{number}.md", "markdown", "Risks", "analysis", None, text, text, 0)


if __name__ == "__main__":
    main()
