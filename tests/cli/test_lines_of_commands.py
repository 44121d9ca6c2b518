"""What every command prints: it fits the terminal, in any encoding, and says how it ends."""

import json
import re
import shlex
from pathlib import Path

import pytest

from builders import a_suite, as_document
from evalwright.cli.app import COMMANDS
from evalwright.reports.formats.console import width
from subjects.command import subject
from subjects.pretended import Pretended, pretended

DRAWN = re.compile(r"[^\n]*\r|\x1b\[[?0-9]*[A-Za-z]")  # lines that were renewed
COPIED = re.compile(r"\s*(?:[\w -]+  +)?(?:evalwright |prompteval |https?://|\(?/)\S")
GROUPS = {
    "baseline": ("set", "list", "show", "rm", "export", "import"),
    "db": ("info", "check", "backup", "vacuum", "prune", "export", "import", "migrate"),
    "keys": ("create", "list", "revoke"),
    "pack": ("build", "verify", "install"),
}
WORKING = f"""
runs
show 1
show 2 --table
show 1 --tasks
show 1 --by-tag
show 1 --events
show 3 --task refund-window-for-members
show 1 --task mail-asks-to-be-forwarded
replay 3
diff 1 2
diff 3 3
compare 1 2 --fail-on none
compare 3 main
rescore 3
run suite.json --agent {shlex.quote(subject("answers.py:yes"))}
run suite.json --agent {shlex.quote(subject("answers.py:yes"))} --repeat 2
run suite.json suite.json --agent {shlex.quote(subject("answers.py:yes"))}
run suite.json --agent {shlex.quote(subject("answers.py:yes"))} --title 'Old prompt, new tool'
runs
baseline list
baseline show main
signals --traces traces.json
validate suite.json
attack suite.json --list
schema
db info
db check
keys list
prompts greeting.md --fail-on error
prompts --list-tiers
prompts --list-rules
prompts --list-models
trust --list
"""
FAILING = {  # and the exit code
    "": 2,
    "nope": 2,
    "run": 2,
    "run nope.yaml": 2,
    f"run wrong.yaml --agent {subject('answers.py:yes')}": 2,
    "run suite.json --agent nowhere.py:answer": 2,
    f"run suite.json --agent {subject('answers.py:no')}": 1,
    f"run suite.json --agent {subject('answers.py:broken')}": 3,
    "run suite.json --agent a:b --timeout soon": 2,
    "show 99": 2,
    "show 3 --table --tasks": 2,
    "replay nope": 2,
    "rescore nope": 2,
    "score nope.jsonl --suite suite.json": 2,
    "tasks nope.jsonl": 2,
    "diff 1 2 --exit-code": 1,
    "baseline show nope": 2,
    "compare 1 2 3": 2,
    "compare 2 1": 1,
    "signals --traces nope.jsonl": 2,
    "signals --traces traces.json --fail-on high": 1,
    "prompts .": 1,
    "prompts nope.md": 3,
    "validate wrong.yaml": 2,
    "export suite.json --openwop suite.json": 2,
    "attack nope.yaml": 2,
    "pack verify suite.json": 1,
    "trust --remove .": 2,
    "keys revoke nope": 2,
    "db backup /nowhere/at/all.db": 2,
    "view nope": 2,
    "cancel 3": 2,
    "worker": 2,
    "schema nope": 2,
}


@pytest.fixture
def log(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of the demo, with a baseline; some files are in the working folder."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("EVALWRIGHT_DB", str(folder / "log.db"))
    if not (folder / "log.db").exists():
        assert pretended("demo").code == 0
        assert pretended("baseline", "set", "main", "3").code == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("a-folder-with-a-rather-long-name")
    (folder / "suite.json").write_text(json.dumps(as_document(a_suite(tasks=3))))
    (folder / "wrong.yaml").write_text("evalwright: 1\ntests: [{input: a, assert: []}]\n")
    (folder / "greeting.md").write_text("Say hello. Maybe.\n")
    turn = {"role": "assistant", "content": "The key is AKIAIOSFODNN7EXAMPLQ."}
    traces = [{"id": f"a-trace-with-a-long-name-{n}", "messages": [turn]} for n in range(3)]
    (folder / "traces.json").write_text(json.dumps(traces))
    return folder


def left(shown: Pretended) -> list[str]:
    return DRAWN.sub("", shown.text).rstrip("\n").split("\n")


def too_wide(shown: Pretended, columns: int) -> list[str]:
    return [line for line in left(shown) if width(line) > columns and not COPIED.match(line)]


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    wide = {}
    for line in filter(None, WORKING.splitlines()):
        shown = pretended(*shlex.split(line), columns=columns)
        assert shown.code == 0, f"{line}\n{shown.text}"
        wide[line] = too_wide(shown, columns)
    for line in FAILING:
        wide[line] = too_wide(pretended(*shlex.split(line), columns=columns), columns)
    assert {line: lines for line, lines in wide.items() if lines} == {}


def test_no_help_is_wider_than_the_terminal() -> None:
    names = [(name,) for name in COMMANDS]
    names += [(group, name) for group, commands in GROUPS.items() for name in commands]
    wide = {}
    for name in [(), *names]:
        shown = pretended(*name, "--help")
        assert shown.code == 0, shown.text
        wide[name] = too_wide(shown, 80)
    assert {name: lines for name, lines in wide.items() if lines} == {}


@pytest.mark.usefixtures("log")
def test_a_terminal_without_unicode_is_spared_escapes() -> None:
    escaped = {}
    for line in [*filter(None, WORKING.splitlines()), *FAILING, "run --help", "pack --help"]:
        shown = pretended(*shlex.split(line), encoding="ascii")
        escaped[line] = [
            each for each in left(shown) if re.search(r"\\(?:u|x|U0001)[0-9a-f]", each)
        ]
    assert {line: lines for line, lines in escaped.items() if lines} == {}


@pytest.mark.usefixtures("log")
def test_every_failure_ends_with_its_exit_code_and_what_that_means() -> None:
    for line, code in FAILING.items():
        shown = pretended(*shlex.split(line))
        last = left(shown)[-1]
        assert (shown.code, last.partition(": ")[0]) == (code, f"exit {code}"), (
            f"{line}\n{shown.text}"
        )
        assert last.partition(": ")[2], line


def test_a_run_is_named_alike_in_every_command(log: None, folder: Path) -> None:
    """By its number, as the latest, as the baseline; without a name the latest is meant."""
    for line in (
        "baseline set main 3",
        "rescore 3 --fail-on none",
    ):  # now the latest is of that suite
        pretended(*shlex.split(line))
    named = ("3", "latest", "baseline", "main")
    commands = [
        *("show {}", "show {} --table", "show {} --events", "replay {}", "diff 1 {}", "diff {} 1"),
        *("compare {} 3 --fail-on none", "rescore {}"),
        *("baseline set other {}", "db export {}", "tasks --from {}"),
    ]
    refused = {}
    for command in commands:
        for name in named:
            shown = pretended(*command.format(name).split())
            refused |= {(command, name): shown.text} if shown.code else {}
    assert refused == {}
    for command in ("show", "replay", "rescore", "diff 3", "compare main", "compare baseline"):
        shown = pretended(*command.split())
        assert shown.code == 0, f"{command}\n{shown.text}"
        assert ", the latest" in shown.text or command.startswith(("diff", "compare"))
    assert re.search(r"run \d+, the latest", pretended("show", "--table").text)
    cancelled = pretended("cancel", "3")
    assert "has ended: completed" in cancelled.text
