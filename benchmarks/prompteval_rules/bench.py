"""How right tier 0 is on labelled prompt files of many repositories.

python benchmarks/prompteval_rules/bench.py [DIRECTORY] [--judged FILE] [--list]

The directory (default: ../shared/data/prompts/wild) holds `files/` with a folder per repository,
`labels.jsonl`, `findings.jsonl` and `misses.jsonl`. Labels are read here alone, never by a rule.
"""

import argparse
import sys
from pathlib import Path

import ranking
import rightness
import verdicts
from wild import Wild

DEFAULT = Path(__file__).resolve().parents[3] / "shared" / "data" / "prompts" / "wild"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--judged", type=Path, help="more judged findings, in the form of the set")
    parser.add_argument("--list", action="store_true", help="show what is wrong, missed, unjudged")
    given = parser.parse_args()
    if not (given.directory / "findings.jsonl").is_file():
        sys.exit(
            f"{given.directory}: no labelled prompts here; name their directory: "
            "make bench-prompts WILD=dir"
        )
    wild = Wild(given.directory, given.judged)
    verdicts.report(wild)
    rightness.report(wild, show=given.list)
    ranking.report(wild)


if __name__ == "__main__":
    main()
