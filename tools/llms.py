"""Write llms.txt, what coding agents read first, from the tables of docs/README.md."""

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
OPENING = """# Evalwright

> Is this agent, or this prompt, good enough to ship? Evalwright runs evaluation suites against
> agents, records every run in one event log, and turns logs into scorecards, comparisons, security
> signals, reports and gates. It works offline, without an account or telemetry.

Exit codes of all commands: 0 passed, 1 the bar was not met, 2 bad usage or input, 3 could not
evaluate, 130 interrupted and resumable. `--json` prints only JSON.
`evalwright COMMAND --help` lists options with examples.

## Start
"""


def llms_text() -> str:
    """The text of llms.txt."""
    lines = [OPENING]
    for line in (ROOT / "docs" / "README.md").read_text().splitlines():
        if heading := re.fullmatch(r"([A-Z][\w ]+):", line):
            lines.append(f"\n## {heading[1]}\n")
        elif row := re.fullmatch(r"\| \[(.+?)\]\((.+?)\) \| (.+) \|", line):
            lines.append(f"- [{row[1]}]({posixpath.normpath(f'docs/{row[2]}')}): {row[3]}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (ROOT / "llms.txt").write_text(llms_text())
