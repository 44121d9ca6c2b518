"""`evalwright run --watch`: run again whenever the suite, its data or the agent change."""

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from evalwright.cli.output import print_exit, say
from evalwright.contracts.errors import BadInput

POLL_SECONDS = 0.3
_WATCHED = (
    ".py", ".yaml", ".yml", ".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".md", ".toml",
    ".gz", ".parquet", ".js", ".mjs", ".ts", ".sh",
)  # fmt: skip
_MOST_FILES = 5000

Stamps = dict[Path, tuple[int, int]]


def run_again_on_change(
    suites: Sequence[Path], agents: Sequence[str], written: Iterable[Path | None]
) -> int:
    """Run the command without `--watch` in a process of its own, and again after each change.

    Ctrl-C ends it; the exit code is that of the last run.
    """
    if not suites:
        raise BadInput("--watch: name a suite; a resumed run is not run again")
    arguments = [each for each in sys.argv[1:] if each != "--watch"]
    places = list(_places(suites, agents))
    results = [path.absolute() for path in written if path is not None]
    try:
        while True:
            before = _stamps(places, results)
            code = subprocess.run(  # noqa: S603 - the same command as this one
                [sys.executable, "-m", "evalwright", *arguments], check=False
            ).returncode
            say(f"watching {len(before)} files; Ctrl-C ends")
            changed = _wait_for_change(places, results, before)
            say(f"{changed} changed")
    except KeyboardInterrupt:
        return code and print_exit(code, aside=True)


def _places(suites: Sequence[Path], agents: Sequence[str]) -> Iterator[Path]:
    for suite in suites:
        yield suite if suite.is_dir() else suite.parent
    for agent in agents:
        file = agent.partition("#")[0].rpartition(":")[0] or agent
        if agent.startswith(("http://", "https://", "cmd:")):
            yield Path()
        else:
            yield Path(file).parent if Path(file).is_file() else Path()


def _stamps(places: Iterable[Path], results: Sequence[Path]) -> Stamps:
    stamps: Stamps = {}
    for place in {each.absolute() for each in places}:
        for file in _files(place, results):
            try:
                status = file.stat()
            except OSError:
                continue
            stamps[file] = (status.st_mtime_ns, status.st_size)
            if len(stamps) >= _MOST_FILES:
                return stamps
    return stamps


def _files(place: Path, results: Sequence[Path]) -> Iterator[Path]:
    for folder, folders, names in os.walk(place):
        folders[:] = [
            name
            for name in folders
            if not name.startswith((".", "__")) and Path(folder, name) not in results
        ]
        for name in names:
            path = Path(folder, name)
            if name.lower().endswith(_WATCHED) and path not in results:
                yield path


def _wait_for_change(places: Sequence[Path], results: Sequence[Path], before: Stamps) -> str:
    """The name of the first file that is not as it was, once nothing changes any more."""
    while (now := _stamps(places, results)) == before:
        time.sleep(POLL_SECONDS)
    time.sleep(POLL_SECONDS)
    while (later := _stamps(places, results)) != now:  # an editor may still be writing
        now = later
        time.sleep(POLL_SECONDS)
    changed = [path for path in now.keys() | before.keys() if now.get(path) != before.get(path)]
    return min(changed).name if changed else "a file"
