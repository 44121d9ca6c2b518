"""What the page of a run costs: CPU, its size, and the first view in a browser.

python benchmarks/run_page/bench.py [--tasks 10000] [--repeat 3]
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "compare"))

from first_view import first_view_seconds  # noqa: E402 - found by the line above

MB = 1_000_000
EVALWRIGHT = str(Path(sys.executable).with_name("evalwright"))
AGENT = """
import random

WORDS = (
    "the order has been shipped by the carrier and will arrive on monday at your address please "
    "keep the parcel number for later questions about refunds invoices stock returns"
).split()


def answer(task):
    chance = random.Random(task.input["question"])
    words = " ".join(chance.choice(WORDS) for _ in range(40))
    number = chance.randrange(1000)
    return {"text": f"Order A-{number}: {words}.", "n": number}
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evalwright-bench-") as folder:
        os.chdir(folder)
        Path("agent.py").write_text(AGENT)
        Path("suite.json").write_text(json.dumps(_suite(options.tasks)))
        subprocess.run([EVALWRIGHT, "run", "suite.json", "--db", "runs.db", "--quiet"], check=False)
        page = Path("run.html")
        costs = [_cpu_seconds(page) for _ in range(options.repeat)]
        views = [first_view_seconds(page, "#list > details") for _ in range(options.repeat)]
        whole, at_first = _sizes(page)
    cpu, view = statistics.median(costs), statistics.median(views)
    print(f"{options.tasks:,} tasks with five checks each; target, then median and best")
    print(f"CPU of `show --html`      3.0 s   {cpu:.2f} s  {min(costs):.2f} s")
    print(f"first view in Chromium    1.5 s   {view:.2f} s  {min(views):.2f} s")
    print(f"before details are read   2 MB    {at_first / MB:.2f} MB")
    print(f"the whole file            -       {whole / MB:.2f} MB")


def _suite(count: int) -> dict:
    """Tasks of which about one in thirty fails."""
    return {
        "evalwright": 1,
        "name": "page",
        "agent": "agent.py:answer",
        "tasks": [_task(number) for number in range(count)],
    }


def _task(number: int) -> dict:
    unwanted = "shipped" if number % 20 == 0 else "sorry"
    return {
        "id": f"task-{number:06d}",
        "tags": ["orders" if number % 2 else "refunds"],
        "input": {"question": f"Where is order A-{number}, sent on day {number % 365}?"},
        "checks": [
            {"contains": "Order"},
            {"regex": r"A-\d+"},
            {"not": {"contains": unwanted}},
            {"json": {"path": "$.n", "schema": {"type": "integer"}}},
            {"contains_any": ["monday", "parcel", "refunds"]},
        ],
    }


def _cpu_seconds(page: Path) -> float:
    before = os.times()
    time.sleep(0.2)
    command = [EVALWRIGHT, "show", "latest", "--db", "runs.db", "--html", str(page)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return (
        after.children_user - before.children_user + after.children_system - before.children_system
    )


def _sizes(page: Path) -> tuple[int, int]:
    """Bytes of the file, and of what a browser reads for the first view and for every line."""
    whole = page.read_bytes()
    later = re.findall(rb'id="(?:bodies-\d+|events)">([^<]*)<', whole)
    return len(whole), len(whole) - sum(map(len, later))


if __name__ == "__main__":
    main()
