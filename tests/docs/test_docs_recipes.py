"""The recipes of the page on the architecture, followed in a copy of the package."""

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from doc_pages import ROOT, blocks

from providers import completion, fake_provider

PAGE = ROOT / "docs" / "architecture.md"
RECIPES = (
    "A signal kind",
    "A golden strategy",
    "A check",
    "An event type",
    "A model provider",
    "A trace importer",
    "A lint rule",
    "A report form",
    "A page",
    "A list column",
    "A run option",
    "A command",
)
_PLACED = re.compile(r"# (\S+), above `(.+)`\n(.*)", re.DOTALL)
_NEW_FILE = re.compile(r"\bhere\s+(?:is\s+|in\s+)?`([\w/]+\.py)`", re.IGNORECASE)
_TEMPLATE = re.compile(r"`([\w/]+\.html)`")
_TABLE = re.compile(r"`(\w+)`\s+in\s+`([\w/]+\.py)`")
_ENTRY = re.compile(r"Add\s+`([^`]+)`\s+to\s+`")
_SUITE = """
suiteId: acme.shop.evals.desk
version: 1.0.0
modes: [golden]
tasks:
  - taskId: order
    input: Which order?
    expected: { kind: golden, match: { strategy: regex, value: %s } }
"""

Evalwright = Callable[..., subprocess.CompletedProcess[str]]


def follow(recipe: str, package: Path) -> None:
    """Write the one file, or class, and the one line of the table with its import."""
    text = PAGE.read_text("utf-8").split(f"\n### {recipe}\n")[1].split("\n##")[0]
    module, *more = [each.text for each in blocks(PAGE, text) if each.language == "python"]
    templates = [each.text for each in blocks(PAGE, text) if each.language == "html"]
    for file, template in zip(_TEMPLATE.findall(text), templates, strict=True):
        (package / file).write_text(template, "utf-8")
    if _PLACED.match(module):
        for block in (module, *more):
            put_above(block, package)
        return
    new_files, ((table, table_file),) = _NEW_FILE.findall(text), _TABLE.findall(text)
    entry = more[0].rstrip() if more else _ENTRY.findall(text)[0]
    path = package / table_file
    if not new_files:  # the class stands in the module of the table, above it
        before, line, after = path.read_text("utf-8").partition(f"\n{table}")
        path.write_text(_with_entry(f"{before}\n{module}\n{line}{after}", table, entry), "utf-8")
        return
    (new_file,) = new_files
    assert not (package / new_file).exists()
    (package / new_file).write_text(module, "utf-8")
    source = _with_entry(path.read_text("utf-8"), table, entry)
    path.write_text(_import_of(entry, new_file, module) + source, "utf-8")


def put_above(block: str, package: Path) -> None:
    """Write lines above the one in a file that their first line names."""
    found = _PLACED.match(block)
    assert found is not None
    path, anchor, lines = package / found[1], found[2], found[3]
    before, line, after = path.read_text("utf-8").partition(f"\n{anchor}")
    assert line, (anchor, path)
    path.write_text(f"{before}\n{lines.rstrip()}{line}{after}", "utf-8")


def _with_entry(source: str, table: str, entry: str) -> str:
    """The entry as the first row of a table."""
    values = {
        ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target): node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value
    }
    kinds = ast.Tuple | ast.List | ast.Dict
    rows = next(node for node in ast.walk(values[table]) if isinstance(node, kinds))
    lines = source.splitlines(keepends=True)
    line, column = rows.lineno - 1, rows.col_offset + 1
    lines[line] = f"{lines[line][:column]}\n{entry},\n{lines[line][column:]}"
    return "".join(lines)


def _import_of(entry: str, new_file: str, module: str) -> str:
    """What the entry uses of the new module: the module itself, names of it, or nothing."""
    *folders, name = new_file.removesuffix(".py").split("/")
    package = ".".join(["evalwright", *folders])
    row = f"{{{entry}}}" if entry.startswith('"') else f"({entry},)"
    used = {node.id for node in ast.walk(ast.parse(row)) if isinstance(node, ast.Name)}
    if name in used:
        return f"from {package} import {name}\n"
    defined = set[str]()
    for node in ast.parse(module).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign):
            defined.add(ast.unparse(node.targets[0]))
    wanted = ", ".join(sorted(used & defined))
    return f"from {package}.{name} import {wanted}\n" if wanted else ""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package in which every recipe was followed."""
    folder = tmp_path_factory.mktemp("extended")
    package = folder / "evalwright"
    shutil.copytree(ROOT / "src" / "evalwright", package)
    for recipe in RECIPES:
        follow(recipe, package)
    return folder


@pytest.fixture
def evalwright(extended: Path, tmp_path: Path) -> Evalwright:
    """The command of that copy, in an empty folder."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        log = {"EVALWRIGHT_DB": str(tmp_path / "log.db")}
        return subprocess.run(
            [sys.executable, "-m", "evalwright", *arguments],
            cwd=tmp_path,
            env={**os.environ, **log, **variables, "PYTHONPATH": str(extended)},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    return run


def test_every_recipe_of_the_page_is_followed() -> None:
    page = PAGE.read_text("utf-8").split("\n## Recipes\n")[1].split("\n## ")[0]
    assert tuple(re.findall(r"^### (.+)$", page, re.MULTILINE)) == RECIPES


def traces(*records: object) -> str:
    return "".join(f"{json.dumps(each)}\n" for each in records)


def test_a_signal_kind_is_found_compared_and_suppressed(
    evalwright: Evalwright, tmp_path: Path
) -> None:
    call = {"type": "tool_call", "call_id": "c1", "tool": "enter", "args": {"amount": "5000"}}
    (tmp_path / "old.jsonl").write_text(traces({"case_id": "a", "final_output": "Done"}))
    (tmp_path / "new.jsonl").write_text(traces({"case_id": "a", "events": [call]}))
    (tmp_path / "known.yaml").write_text(
        "suppressions: [{kind: rounded_payment, reason: known, expires: '2099-01-01'}]\n"
    )
    found = json.loads(evalwright("signals", "--traces", "new.jsonl", "--json").stdout)
    assert [each["kind"] for each in found["signals"]] == ["rounded_payment"]
    sides = ("compare", "--baseline", "old.jsonl", "--new", "new.jsonl", "--json")
    shown = evalwright(*sides, "--out", "shown")
    hidden = evalwright(*sides, "--out", "hidden", "--suppress", "known.yaml")
    kinds = [
        json.loads(each.stdout)["summary"]["security"]["signal_kinds_new"]
        for each in (shown, hidden)
    ]
    assert kinds == [{"rounded_payment": 1}, {}]


def test_a_strategy_is_validated_matched_and_explained(
    evalwright: Evalwright, tmp_path: Path
) -> None:
    for name, value in {
        "good": "'A-[0-9]+'",
        "other": "'B-[0-9]+'",
        "bad": "'('",
        "odd": "5",
    }.items():
        (tmp_path / f"{name}.yaml").write_text(_SUITE % value)
    (tmp_path / "agent.py").write_text("def answer(task):\n    return 'A-17'\n")
    assert evalwright("validate", "good.yaml").returncode == 0
    assert "task order: not a regular expression" in evalwright("validate", "bad.yaml").stderr
    assert (
        "task order: not a text"
        in evalwright("run", "odd.yaml", "--agent", "agent.py:answer").stderr
    )
    assert evalwright("run", "good.yaml", "--agent", "agent.py:answer").returncode == 0
    assert evalwright("run", "other.yaml", "--agent", "agent.py:answer").returncode == 1
    evalwright("compare", "--baseline", "latest", "--new", "latest", "--out", "report")
    report = (tmp_path / "report" / "compare-report.json").read_text("utf-8")
    [failed] = json.loads(report)["items"][0]["failed_assertions"]["new"]
    assert failed["message"].endswith('"A-17" does not match "B-[0-9]+"')


def test_a_check_is_validated_and_made(evalwright: Evalwright, tmp_path: Path) -> None:
    suite = "evalwright: 1\nname: desk\ntasks: [{id: a, input: Hi, checks: [{words: %s}]}]\n"
    (tmp_path / "good.yaml").write_text(suite % 2)
    (tmp_path / "short.yaml").write_text(suite % 1)
    (tmp_path / "bad.yaml").write_text(suite % "many")
    (tmp_path / "agent.py").write_text("def answer(task):\n    return 'Hello there'\n")
    assert "words: 100" in evalwright("validate", "bad.yaml").stderr
    ran = evalwright("run", "good.yaml", "--agent", "agent.py:answer")
    assert ran.returncode == 0, ran.stderr
    failed = evalwright("run", "short.yaml", "--agent", "agent.py:answer")
    assert failed.returncode == 1
    assert "2 words, not 1" in failed.stdout


def test_a_check_is_a_function_and_an_expectation_in_python(
    evalwright: Evalwright, tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_text(
        textwrap.dedent("""
            import evalwright as ew

            def answer(task):
                try:
                    ew.expect("Hello there").words(2).words(most=1)
                except AssertionError as missed:
                    return f"{missed} {ew.words(1, weight=2).document}"
        """)
    )
    suite = "evalwright: 1\nname: desk\ntasks: [{id: a, input: Hi, checks: [{contains: %s}]}]\n"
    for name, said in {"one": '"2 words, not 1"', "two": "\"{'words': 1, 'weight': 2}\""}.items():
        (tmp_path / f"{name}.yaml").write_text(suite % said)
        ran = evalwright("run", f"{name}.yaml", "--agent", "agent.py:answer")
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_an_event_is_part_of_logs_and_checked(evalwright: Evalwright, tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(_SUITE % "yes")
    (tmp_path / "agent.py").write_text("def answer(task):\n    return 'yes'\n")
    evalwright("run", "suite.yaml", "--agent", "agent.py:answer")
    log = [*map(json.loads, evalwright("show", "latest", "--events", "--json").stdout.splitlines())]
    for payload, code in (({"text": "Well done."}, 0), ({"txt": "Well done."}, 2)):
        remark = {**log[-1], "type": "evalwright.remarked", "payload": payload}
        events = [*log[:-1], remark, log[-1]]
        for number, event in enumerate(events):
            event |= {"sequence": number, "eventId": f"{event['runId']}:{number}"}
        (tmp_path / "run.jsonl").write_text(traces(*events))
        checked = evalwright("validate", "run.jsonl")
        assert checked.returncode == code, checked.stderr
        assert ("txt" in checked.stderr) is bool(code)


def test_a_provider_is_asked_with_its_own_path_and_header(
    evalwright: Evalwright, tmp_path: Path
) -> None:
    (tmp_path / "suite.yaml").write_text(_SUITE % "yes")
    (tmp_path / "prompt.md").write_text("Answer.\n")
    (tmp_path / "agent.yaml").write_text(
        textwrap.dedent("""
            agentId: local.shop.desk
            persona: Desk
            modelClass: general
            systemPromptRef: prompt.md
        """)
    )
    with fake_provider(completion("yes")) as provider:
        ran = evalwright(
            *("run", "suite.yaml", "--agent", "agent.yaml", "--model", "northwind:m"),
            NORTHWIND_BASE_URL=provider.url,
            NORTHWIND_API_KEY="k-123",
        )
    assert ran.returncode == 0, ran.stderr
    [call] = provider.calls
    assert call.path.endswith("/v2/chat/completions")
    assert call.headers["northwind-key"] == "k-123"


def test_an_importer_reads_every_record(evalwright: Evalwright, tmp_path: Path) -> None:
    key = "AKIAZ5GQ7LMNTRVB2XYC"
    records = [{"journal": ["I look.", f"It is {key}."], "id": "a"}, {"journal": [], "id": "b"}]
    (tmp_path / "journal.jsonl").write_text(traces(*records))
    ran = evalwright("signals", "--traces", "journal.jsonl", "--json")
    assert ran.returncode == 0, ran.stderr
    found = {each["id"]: each["signals"] for each in map(json.loads, ran.stdout.splitlines())}
    assert [each["kind"] for each in found["a"]] == ["secret_in_output"]
    assert found["b"] == []


def test_a_lint_rule_is_reported_at_its_place(evalwright: Evalwright, tmp_path: Path) -> None:
    prompt = "---\nname: A\ndescription: B\n---\nPlease, kindly sort the names.\n"
    (tmp_path / "a.md").write_text(prompt)
    ran = evalwright("prompts", "a.md", "--tier", "0", "--select", "PE212")
    assert re.search(r"^\s+5:9\s+info\s+PE212 ", ran.stdout, re.MULTILINE), ran.stdout


def test_a_report_form_is_an_option(evalwright: Evalwright, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(traces({"case_id": "a", "final_output": "Done"}))
    sides = ("--baseline", "a.jsonl", "--new", "a.jsonl", "--out", "report")
    ran = evalwright("compare", *sides, "--verdict", "verdict.txt")
    verdict = (tmp_path / "verdict.txt").read_text("utf-8")
    assert verdict.strip()
    assert verdict in ran.stdout


def test_a_page_is_in_the_menu_and_shown(extended: Path, tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(_SUITE % "yes")
    (tmp_path / "agent.py").write_text("def answer(task):\n    return 'yes'\n")
    environment = os.environ | {
        "EVALWRIGHT_DB": str(tmp_path / "log.db"),
        "PYTHONPATH": str(extended),
    }
    command = [sys.executable, "-m", "evalwright"]
    run = [*command, "run", "suite.yaml", "--agent", "agent.py:answer", "--tag", "nightly"]
    subprocess.run(run, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=240)
    view = [*command, "view", "--no-browser"]
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with subprocess.Popen(view, cwd=tmp_path, env=environment, stdout=subprocess.PIPE) as served:
        assert served.stdout is not None
        try:
            link = served.stdout.readline().decode().strip()
            first = opener.open(link, timeout=60).read().decode()
            shown = opener.open(f"{link.partition('/?')[0]}/tags", timeout=60).read().decode()
        finally:
            served.send_signal(signal.SIGINT)
    assert '<a href="/tags"' in first
    assert '<a href="/runs?tag=nightly">nightly</a> 1' in shown


def test_a_column_is_in_the_list_of_runs(evalwright: Evalwright, tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(_SUITE % "yes")
    (tmp_path / "agent.py").write_text("def answer(task):\n    return 'yes'\n")
    evalwright("run", "suite.yaml", "--agent", "agent.py:answer")
    head, _, line = evalwright("runs").stdout.splitlines()
    assert head.split()[:2] == ["MODES", "RUN"]
    assert line.startswith("  golden ")


SUITE_WITH_A_CHECK = "evalwright: 1\ntasks:\n  - { input: Hi, checks: [{ contains: Hi }] }\n"


def test_a_run_option_is_offered_by_every_edge_and_kept_in_the_log(
    evalwright: Evalwright, extended: Path, tmp_path: Path
) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE_WITH_A_CHECK)
    (tmp_path / "agent.py").write_text("def answer(task):\n    return task.input\n")
    command = ("run", "suite.yaml", "--agent", "agent.py:answer")
    ran = evalwright(*command, "--note", "before the release", "--out", "out")
    assert ran.returncode == 0, ran.stderr
    events = map(json.loads, (tmp_path / "out" / "events.jsonl").read_text().splitlines())
    planned = next(each for each in events if each["type"] == "evalwright.planned")
    assert planned["payload"]["settings"]["note"] == "before the release"
    assert options_that_edges_lack(extended) == ""


def options_that_edges_lack(folder: Path) -> str:
    """What the test of every edge says of a copy of the package."""
    test = ROOT / "tests" / "test_run_options.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-k", "option", str(test)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout


def test_an_option_that_an_edge_forgot_is_found(tmp_path: Path) -> None:
    package = tmp_path / "evalwright"
    shutil.copytree(ROOT / "src" / "evalwright", package)
    text = PAGE.read_text("utf-8").split("\n### A run option\n")[1].split("\n##")[0]
    field = next(each.text for each in blocks(PAGE, text) if each.language == "python")
    put_above(field, package)
    told = options_that_edges_lack(tmp_path)
    edges = ("the_command_line", "python", "pytest", "a_host")
    missed = [edge for edge in edges if "FAILED" in told and f"test_{edge}_offers" in told]
    assert missed == list(edges)
    assert "test_a_resumed_run_takes_every_option" in told


def test_a_command_is_listed_and_called(evalwright: Evalwright, tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE_WITH_A_CHECK)
    (tmp_path / "agent.py").write_text("def answer(task):\n    return task.input\n")
    for tags in (("nightly",), ("nightly", "eu")):
        options = [word for tag in tags for word in ("--tag", tag)]
        assert (
            evalwright("run", "suite.yaml", "--agent", "agent.py:answer", *options).returncode == 0
        )
    assert evalwright("tags").stdout == "eu: 1\nnightly: 2\n"
    assert "Count the runs that have a tag." in evalwright("--help").stdout
