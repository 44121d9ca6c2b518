"""Tier 0 of prompteval on a library: wall, CPU and peak memory, start-up included.

The library is the folder that is named, else one that is made up: prompts of about 6 KB of which
no two are alike; and beside it a real one, where the material for development lies next to the
project. What people wrote takes more time: front matter with lists, fences, tables, emoji.
`--files 10000` measures memory; `--out results.json` adds a report.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from made_library import made_library

REAL = Path(__file__).parents[3] / "shared/data/prompts/library/prompts"
COMMAND = Path(sys.executable).with_name("prompteval")


def sample(library: Path, out: Path | None) -> tuple[float, float, float]:
    began = time.monotonic()
    report = [] if out is None else ["-o", str(out)]
    process = subprocess.Popen([COMMAND, str(library), "-t", "0", "--quiet", *report])
    _, _, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - began
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="?", type=Path)
    parser.add_argument("--files", type=int, default=192)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        libraries = {"named": given.library}
        if given.library is None:
            libraries = {"made up": made_library(Path(scratch), given.files)}
            libraries |= {"real": REAL} if REAL.is_dir() else {}
        for name, library in libraries.items():
            print(f"{name} library")
            show([sample(library, given.out) for _ in range(given.repeat)])


def show(samples: list[tuple[float, float, float]]) -> None:
    for name, values in zip(
        ("wall s", "CPU s", "peak MiB"), zip(*samples, strict=True), strict=True
    ):
        print(f"{name:9} median {statistics.median(values):.2f}  best {min(values):.2f}")


if __name__ == "__main__":
    main()
