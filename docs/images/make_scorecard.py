"""Draw docs/images/scorecard.svg from what `evalwright demo` really prints.

Run it from anywhere: `.venv/bin/python docs/images/make_scorecard.py`. It needs a POSIX system: the
command is given a terminal of its own, so that it prints in colour.
"""

import io
import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

PICTURE = Path(__file__).with_name("scorecard.svg")
COLUMNS = 100
INDENT = 1  # characters on the left


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(draw(demo_output()), "utf-8")


def demo_output() -> str:
    """What `evalwright demo` prints to a terminal, colours included."""
    command = [str(Path(sys.executable).with_name("evalwright")), "demo"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        log = str(Path(folder) / "log.db")
        environment = {"PATH": path, "EVALWRIGHT_DB": log, "TERM": "xterm-256color"}
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment
        )
        os.close(theirs)
        text = _read(ours)
        if process.wait() != 0:
            raise SystemExit(f"evalwright demo ended with exit code {process.returncode}\n{text}")
    return text


def draw(output: str) -> str:
    """The output as an SVG that loads nothing: no fonts from elsewhere, no links."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False
    )
    shown = f"$ evalwright demo\n{output}".replace("\r\n", "\n").rstrip("\n")
    text = Text.from_ansi(shown, no_wrap=True, overflow="ignore")
    console.print(Padding(text, (0, 0, 1, INDENT)))  # a line below: descenders need room
    svg = console.export_svg(title="evalwright demo", unique_id="scorecard")
    svg = re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def _read(descriptor: int) -> str:
    chunks = []
    try:
        while chunk := os.read(descriptor, 65536):
            chunks.append(chunk)
    except OSError:  # Linux says so when the other end of a terminal is closed
        pass
    finally:
        os.close(descriptor)
    return b"".join(chunks).decode()


if __name__ == "__main__":
    main()
