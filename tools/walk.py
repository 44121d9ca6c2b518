"""Print the way through the code of three everyday commands: which functions, in which files.

Each command runs in a process of its own under a profiler, from `evalwright.cli.main()` to its
end, in all threads. Counted are distinct functions of `src` (without lambdas, comprehensions and
class bodies), their modules, and how often two consecutive calls lie in different rooms, that is
in different first-level packages.

    python tools/walk.py                 # every way, file by file
    python tools/walk.py golden --brief  # one way, figures only
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src"
LIMITS = {"golden": (335, 73, 135), "compare": (381, 71, 206), "prompts": (190, 44, 142)}
OPTIMISED_FUNCTION = 2  # CO_NEWLOCALS: class bodies lack it

SUITE = """\
suiteId: acme.shop.evals.greeting
version: 1.0.0
modes: [golden]
tasks:
  - taskId: greeting
    input: { question: "Hello" }
    expected: { kind: golden, match: { strategy: exact, value: "Hello!" } }
"""
AGENT = 'def answer(task):\n    return "Hello!"\n'
PROMPT = """\
---
title: Summarise
---
You are an editor. Summarise the text below in three sentences.

## Input
{{ text }}

## Output
Return plain text.
"""


def record(arguments: list[str], result: Path) -> None:
    """Run one command under the profiler and write the calls it made."""
    calls: list[CodeType] = []
    source = str(SOURCE)

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(source):
            calls.append(code)

    sys.argv = ["evalwright", *arguments]
    import evalwright.cli

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        evalwright.cli.main()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        made = [
            (str(Path(code.co_filename).relative_to(SOURCE)), code.co_qualname)
            for code in calls
            if not code.co_name.startswith("<") and code.co_flags & OPTIMISED_FUNCTION
        ]
        result.write_text(json.dumps(made))


def walk(folder: Path, arguments: list[str]) -> list[tuple[str, str]]:
    """The calls of one command, made in a process of its own."""
    result = folder / "calls.json"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "EVALWRIGHT_DB": str(folder / "log.db")}
    done = subprocess.run(
        [sys.executable, __file__, "--record", str(result), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in {0, 1}:
        raise SystemExit(f"evalwright {' '.join(arguments)}: exit {done.returncode}\n{done.stderr}")
    return [(path, name) for path, name in json.loads(result.read_text())]


def ways(folder: Path, wanted: list[str]) -> dict[str, list[tuple[str, str]]]:
    """The calls of each wanted way."""
    (folder / "suite.yaml").write_text(SUITE)
    (folder / "agent.py").write_text(AGENT)
    (folder / "prompt.md").write_text(PROMPT)
    run = ["run", "suite.yaml", "--agent", "agent.py:answer"]
    found = {"golden": walk(folder, run)}
    if "compare" in wanted:
        walk(folder, run)
        sides = ["--baseline", _first_run(folder), "--new", "latest"]
        found["compare"] = walk(folder, ["compare", *sides, "--out", "report"])
    if "prompts" in wanted:
        found["prompts"] = walk(folder, ["prompts", "prompt.md", "-t", "0", "--quiet"])
    return {name: found[name] for name in wanted}


def _first_run(folder: Path) -> str:
    listed = subprocess.run(
        [sys.executable, "-m", "evalwright", "runs", "--json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "EVALWRIGHT_DB": str(folder / "log.db")},
        capture_output=True,
        text=True,
        check=True,
    )
    return str(json.loads(listed.stdout)[-1]["runId"])


def room(path: str) -> str:
    """The first-level package that a module belongs to."""
    parts = Path(path).parts
    return parts[1] if len(parts) > 2 else "/".join(parts)


def figures(calls: list[tuple[str, str]]) -> tuple[int, int, int]:
    """Distinct functions, modules, and changes of package."""
    changes = sum(room(a) != room(b) for (a, _), (b, _) in itertools.pairwise(calls))
    return len(set(calls)), len({path for path, _ in calls}), changes


def show(name: str, calls: list[tuple[str, str]], *, brief: bool) -> None:
    """Print one way."""
    counted = zip(
        ("functions", "modules", "changes of package"), figures(calls), LIMITS[name], strict=True
    )
    print(
        f"{name}: " + ", ".join(f"{count} {what} (limit {limit})" for what, count, limit in counted)
    )
    if brief:
        return
    files: dict[str, Counter[str]] = {}
    for path, function in calls:
        files.setdefault(path, Counter())[function] += 1
    for path, functions in files.items():
        named = (f"{each} x{n}" if n > 1 else each for each, n in functions.items())
        print(f"  {path} ({len(functions)})\n      {', '.join(named)}")


def main() -> None:
    """Parse the command line."""
    if sys.argv[1:2] == ["--record"]:
        record(sys.argv[3:], Path(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", nargs="*", choices=[*LIMITS, []], help="default: all")
    parser.add_argument("--brief", action="store_true", help="figures only")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = ways(Path(folder), given.way or list(LIMITS))
    for name, calls in found.items():
        show(name, calls, brief=given.brief)


if __name__ == "__main__":
    main()
