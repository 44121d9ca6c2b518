"""Mutation testing: change the code in sampled places and list the changes that no test notices.

mutmut makes the mutants and runs the tests that cover each; this script draws the sample, by a
seed, from the rooms named in `[tool.mutmut]` of pyproject.toml, and prints the survivors with
what was changed. A survivor that changes nothing a user could notice stands in
`tools/mutants.toml` with the reason.

    make mutants
    python tools/mutants.py --sample 50 --seed 7
    python tools/mutants.py --sample 30 --room scoring --tests tests/scoring

With `--room`, a room of the package is mutated alone, and with `--tests` only these tests are
collected: minutes in place of an hour, for whoever works in that room.
"""

import argparse
import fnmatch
import json
import os
import random
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / "tools"
WORK = ROOT / "mutants"  # the tool's own, beside links to everything else
KILLED = {"killed", "timeout", "segfault", "caught by type check"}
GOAL = 0.92
SPINNER = re.compile(r"(Generating mutants|Listing all tests|Running \w+( \w+)?)$")


def prepare(room: str, tests: list[str]) -> None:
    """Make the folder that the tool works in: with these settings, and links to all else."""
    WORK.mkdir(exist_ok=True)
    for path in ROOT.iterdir():
        if path.name not in {WORK.name, "pyproject.toml"} and not (WORK / path.name).exists():
            (WORK / path.name).symlink_to(path)
    settings = (ROOT / "pyproject.toml").read_text()
    chosen = tomllib.loads(settings)["tool"]["mutmut"]
    mutated = [each for each in chosen["only_mutate"] if each.startswith(f"src/evalwright/{room}")]
    if not mutated:
        sys.exit(f"no room of [tool.mutmut] begins with src/evalwright/{room}")
    selection = "pytest_add_cli_args_test_selection"
    for key, value in {"only_mutate": mutated, selection: tests or chosen[selection]}.items():
        settings = re.sub(rf"(?ms)^{key} = \[.*?^\]", f"{key} = {json.dumps(value)}", settings)
    (WORK / "pyproject.toml").write_text(settings)


def mutmut(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tool with the plugin of this folder, on the mutated source."""
    path = os.pathsep.join([str(WORK / "mutants" / "src"), str(TOOLS)])
    return subprocess.run(
        [str(Path(sys.executable).with_name("mutmut")), *arguments],
        cwd=WORK,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def names() -> list[str]:
    """Every mutant that can be made."""
    script = (
        "from mutmut.__main__ import copy_src_dir, copy_also_copy_files, create_mutants;"
        "import pathlib; pathlib.Path('mutants').mkdir(exist_ok=True);"
        "copy_src_dir(); copy_also_copy_files(); create_mutants(2)"
    )
    subprocess.run([sys.executable, "-c", script], cwd=WORK, check=True, stdout=subprocess.DEVNULL)
    found: list[str] = []
    for meta in sorted((WORK / "mutants" / "src").rglob("*.meta")):
        found += json.loads(meta.read_text())["exit_code_by_key"]
    return found


def statuses(wanted: set[str]) -> dict[str, str]:
    """What became of each mutant."""
    lines = mutmut("results", "--all", "true").stdout.splitlines()
    pairs = (line.strip().rsplit(": ", 1) for line in lines if ": " in line)
    return {name: status for name, status in pairs if name in wanted}


def reasons() -> dict[str, str]:
    """Survivors that are known, with the reason why they may live: by their change."""
    file = TOOLS / "mutants.toml"
    if not file.exists():
        return {}
    return {each["change"]: each["reason"] for each in tomllib.loads(file.read_text())["survivor"]}


def change(name: str) -> str:
    """The lines that a mutant changes, as one text."""
    shown = mutmut("show", name).stdout.splitlines()
    lines = [line for line in shown if line[:1] in "+-" and line[:3] not in {"+++", "---"}]
    return "\n".join(line[0] + " " + line[1:].strip() for line in lines)


def main() -> int:
    """Draw, run, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=400)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--only", default="*", help="a pattern of mutant names")
    parser.add_argument("--room", default="", help="a room of the package, such as host/access")
    parser.add_argument("--tests", nargs="*", default=[], help="files or folders of tests")
    given = parser.parse_args()
    prepare(given.room, given.tests)
    known = [name for name in names() if fnmatch.fnmatch(name, given.only)]
    drawn = random.Random(given.seed).sample(known, min(given.sample, len(known)))
    print(f"{len(drawn)} of {len(known)} mutants, seed {given.seed}", flush=True)
    done = mutmut("run", *drawn)
    found = statuses(set(drawn))
    counts = Counter(found.values())
    if len(found) < len(drawn) or counts["not checked"]:
        shown = [line for line in done.stdout.splitlines() if not SPINNER.search(line)]
        print(
            *shown[-60:], done.stderr, "mutmut did not test every mutant", sep="\n", file=sys.stderr
        )
        return 3
    excused = reasons()
    for name in sorted(name for name, status in found.items() if status not in KILLED):
        changed = change(name)
        print(f"\n{name}: {found[name]}\n{changed}")
        print(f"  reason: {excused.get(changed, 'none given')}")
    killed = sum(count for status, count in counts.items() if status in KILLED)
    print(f"\n{killed} of {len(drawn)} killed ({killed / len(drawn):.1%}): {dict(counts)}")
    return 0 if killed / len(drawn) >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
