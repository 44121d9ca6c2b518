"""Tier 0 of prompteval on a library: wall, CPU and peak memory, start-up included.

The library is the folder that is named, else one that is made up: 192 prompts of about 6 KB.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = Path(sys.executable).with_name("prompteval")
SECTION = """## Step {n}

Look at part {n} of {{{{subject}}}} and list at most {n} findings, the gravest first. For each give
the place, the reason in one sentence, and a remedy. Leave out what is only a matter of taste.
"""


def made_library(folder: Path, files: int) -> Path:
    for number in range(files):
        sections = "\n".join(SECTION.format(n=n + number % 7 + 1) for n in range(20))
        text = f"---\ntitle: Review {number}\ndescription: Reviews part {number}.\n---\n\n"
        (folder / f"review-{number:05d}.md").write_text(f"{text}# Review {number}\n\n{sections}")
    return folder


def sample(library: Path) -> tuple[float, float, float]:
    began = time.monotonic()
    process = subprocess.Popen([COMMAND, str(library), "-t", "0", "--quiet"])
    _, _, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - began
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="?", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        library = given.library or made_library(Path(scratch), 192)
        samples = [sample(library) for _ in range(given.repeat)]
    for name, values in zip(
        ("wall s", "CPU s", "peak MiB"), zip(*samples, strict=True), strict=True
    ):
        print(f"{name:9} median {statistics.median(values):.2f}  best {min(values):.2f}")


if __name__ == "__main__":
    main()
