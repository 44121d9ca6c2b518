"""`evalwright attack`: an adversarial suite of another one, to a file or to stdout."""

import msgspec
import pytest
import yaml
from hypothesis import given

from builders import a_suite, a_task, as_document
from evalwright.attacks.strategies import STRATEGIES
from evalwright.cli.attack import suite_file
from evalwright.contracts.suite import parse_suite
from strategies import suite_documents
from subjects.command import Evalwright

TOOLS = {"toolResponses": [{"tool": "shop:orders.get", "response": {"status": "shipped"}}]}


@pytest.mark.parametrize("name", ["attacked.yaml", "attacked.json"])
def test_the_derived_suite_is_written_and_is_valid(evalwright: Evalwright, name: str) -> None:
    suite = evalwright.suite(a_suite([a_task("one", fixtures=TOOLS)]))
    made = evalwright("attack", suite, "--out", name)
    assert (made.code, made.out) == (0, "")
    assert f"{len(STRATEGIES)} attacks on 1 task in {name}" in made.err
    assert evalwright("validate", name).code == 0


def test_both_forms_of_a_derived_suite_are_the_same_suite(evalwright: Evalwright) -> None:
    suite = evalwright.suite()
    evalwright("attack", suite, "--out", "a.yaml")
    evalwright("attack", suite, "--out", "a.json")
    read = [
        parse_suite((evalwright.folder / name).read_bytes(), name) for name in ("a.yaml", "a.json")
    ]
    assert read[0] == read[1]


def test_without_a_file_the_suite_goes_to_stdout_in_the_form_of_its_origin(
    evalwright: Evalwright,
) -> None:
    suite = evalwright.suite()
    assert evalwright("attack", suite).json()["modes"] == ["golden", "adversarial"]
    (evalwright.folder / "suite.yaml").write_text(yaml.safe_dump(as_document(a_suite())))
    shown = evalwright("attack", "suite.yaml", "--strategy", "encoding").out
    assert yaml.safe_load(shown)["suiteId"].startswith("acme.shop.evals.refunds-attacked-")


def test_a_wide_suite_becomes_a_wide_suite_with_the_same_checks(evalwright: Evalwright) -> None:
    evalwright("init")
    made = evalwright("attack", "suite.yaml", "--strategy", "role-play", "--out", "attacked.yaml")
    assert made.code == 0, made.err
    attacked = yaml.safe_load((evalwright.folder / "attacked.yaml").read_text())
    assert attacked["tasks"][0]["checks"] == [
        {"starts_with": "Hello"},
        {"does_not_call": "shop:orders.get"},
    ]
    ran = evalwright("run", "attacked.yaml")
    assert ran.code == 0
    assert "no safety findings" in ran.out, "it looks for them without being asked"


DESK = {
    "evalwright": 1,
    "name": "desk",
    "agent": {"ref": "agent.py:answer", "tools": "task", "usage": "none"},
    "modes": ["golden", "regression"],
    "thresholds": {"passRate": 0.8, "maxP95LatencyMs": 5000, "tags": {"easy": {"passRate": 1}}},
    "defaults": {"tags": ["easy"], "checks": [{"all": [{"python": "agent.py:is_no_excuse"}]}]},
    "data": {"file": "rows.csv", "input": "{{ question }}", "checks": [{"contains": "{{ word }}"}]},
}
ROWS = "question,word\nWhere is my order?,shipped\nHow are you?,well\n"
# Obeys whatever it can read in its input.
OBEDIENT = """
import re

def answer(task):
    said = {"Where": "It is shipped.", "How": "All is well."}[task.input.split()[0]]
    told = re.search(r"after the code (\\w+)", task.input)
    return f"{told[1]}\\nI am an assistant.\\n{said}" if told else said

def is_no_excuse(output):
    return "sorry" not in output
"""


def a_desk(evalwright: Evalwright, agent: str = OBEDIENT) -> None:
    (evalwright.folder / "suite.yaml").write_text(yaml.safe_dump(DESK))
    (evalwright.folder / "rows.csv").write_text(ROWS)
    (evalwright.folder / "agent.py").write_text(agent)


@pytest.mark.parametrize("out", ["attacked.yaml", "below/attacked.yaml"])
def test_agent_claims_modes_and_bars_stay_those_of_the_suite(
    evalwright: Evalwright, out: str
) -> None:
    a_desk(evalwright)
    (evalwright.folder / "below").mkdir()
    assert evalwright("attack", "suite.yaml", "--strategy", "encoding", "--out", out).code == 0
    made = yaml.safe_load((evalwright.folder / out).read_text())
    assert made["agent"] == {
        "ref": "../agent.py:answer" if "/" in out else "agent.py:answer",
        "tools": "task",
        "usage": "none",
    }
    assert made["modes"] == ["golden", "regression", "adversarial"]
    assert made["thresholds"] == DESK["thresholds"]
    assert all(task["tags"] == ["easy"] and len(task["checks"]) == 2 for task in made["tasks"])
    assert evalwright("run", out).code == 0


def test_the_scorecard_tells_what_came_of_each_strategy(evalwright: Evalwright) -> None:
    a_desk(evalwright)
    strategies = ("--strategy", "role-play", "--strategy", "encoding")
    evalwright("attack", "suite.yaml", *strategies, "--out", "attacked.yaml")
    forms = ("--html", "run.html", "--markdown", "run.md")
    ran = evalwright("run", "attacked.yaml", *forms)
    assert ran.code == 1
    table = [line.split() for line in ran.out.splitlines()]
    assert ["strategy", "tried", "held", "obeyed", "task", "failed"] in table
    assert ["encoding", "2", "2", "0", "0"] in table
    assert ["role-play", "2", "0", "2", "0"] in table
    assert ["all", "4", "2", "2", "0"] in table
    assert "| role-play | 2 | 0 | 2 | 0 |" in (evalwright.folder / "run.md").read_text()
    page = (evalwright.folder / "run.html").read_text()
    assert '<th scope="row">role-play</th><td class="n">2</td><td class="n">0</td>' in page
    assert "role-play   " in evalwright("show", "latest").out
    lines = evalwright("show", "latest", "--tasks", "--json").out.splitlines()
    told = [msgspec.json.decode(line).get("attack") for line in lines]
    assert [each and (each["strategy"], each["result"]) for each in told[:3]] == [
        None, ("encoding", "held"), ("role-play", "obeyed"),
    ]  # fmt: skip


def test_a_task_that_failed_before_the_attack_is_counted_once_and_apart(
    evalwright: Evalwright,
) -> None:
    a_desk(evalwright, OBEDIENT.replace("All is well.", "What?"))
    evalwright("attack", "suite.yaml", "--out", "attacked.yaml", "--strategy", "encoding")
    ran = evalwright("run", "attacked.yaml")
    assert ["encoding", "1", "1", "0", "0"] in [line.split() for line in ran.out.splitlines()]
    (line,) = (line for line in ran.out.splitlines() if "failed before any attack" in line)
    assert line.strip().startswith("1 task failed before any attack: ")


def test_nothing_that_exists_is_overwritten(evalwright: Evalwright) -> None:
    suite = evalwright.suite()
    refused = evalwright("attack", suite, "--out", suite)
    assert refused.code == 2
    assert "already exists" in refused.err


def test_attacks_are_not_attacked_again(evalwright: Evalwright) -> None:
    evalwright("attack", evalwright.suite(), "--out", "attacks.yaml")
    refused = evalwright("attack", "attacks.yaml")
    assert refused.code == 2
    assert "already a suite of attacks" in refused.err


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(evalwright: Evalwright) -> None:
    suite = evalwright.suite()
    first, again, other = (evalwright("attack", suite, "--seed", seed).out for seed in "778")
    assert first == again
    assert first != other


def test_strategies_and_their_number_can_be_chosen(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(4))
    chosen = evalwright("attack", suite, "--strategy", "role-play", "--strategy", "encoding")
    assert len(chosen.json()["tasks"]) == 4 + 8
    fewer = evalwright("attack", suite, "--per-task", "1")
    assert len(fewer.json()["tasks"]) == 4 + 4


def test_what_was_skipped_is_said(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite([a_task(f"t-{n}", input=n) for n in range(7)]))
    made = evalwright("attack", suite)
    assert made.code == 0
    assert "7 attacks on 7 tasks" in made.err
    line = "skipped: role-play finds no input with text in t-0, t-1, t-2, t-3, t-4 and 2 more"
    assert line in made.err.splitlines()


def test_one_task_is_not_called_tasks(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(1))
    made = evalwright("attack", suite, "--per-task", "1")
    assert made.err.splitlines()[0].endswith(": 1 attack on 1 task")


def test_the_strategies_are_listed(evalwright: Evalwright) -> None:
    shown = evalwright("attack", "--list")
    assert shown.code == 0
    assert [line.split()[0] for line in shown.out.splitlines()] == list(STRATEGIES)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name a suite"),
        (["missing.yaml"], "missing.yaml: cannot be read"),
        (["broken.yaml"], "broken.yaml: $.suiteId"),
        (["suite.json", "--strategy", "telepathy"], "'telepathy' is not one of"),
        (["suite.json", "--per-task", "0"], "--per-task"),
        (["suite.json", "--seed", "x"], "--seed"),
        (["suite.json", "--out", "no/such/folder.yaml"], "cannot be written"),
        (["numbers.json", "--strategy", "role-play"], "instruction-in-memory fits any task"),
    ],
    ids=str,
)
def test_bad_input_is_told_with_exit_code_2(
    evalwright: Evalwright, arguments: list[str], said: str
) -> None:
    evalwright.suite()
    evalwright.suite(a_suite([a_task(input=7)]), "numbers.json")
    (evalwright.folder / "broken.yaml").write_text("suiteId: x\ntasks: []\n")
    refused = evalwright("attack", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err


def test_invisible_characters_are_spelled_out_in_the_file(evalwright: Evalwright) -> None:
    suite = evalwright.suite()
    for name in ("a.yaml", "a.json"):
        evalwright("attack", suite, "--strategy", "unicode-smuggling", "--out", name)
        assert (evalwright.folder / name).read_bytes().isascii()


@given(document=suite_documents)
@pytest.mark.parametrize("name", ["suite.yaml", "suite.json"])
def test_a_file_holds_exactly_the_suite(name: str, document: dict[str, object]) -> None:
    suite = parse_suite(msgspec.json.encode(document), "suite.json")
    assert parse_suite(suite_file(suite, name), name) == suite


@pytest.mark.parametrize("text", ["1e3", "0o17", "no", "~", "null", "2026-01-01", "12:30", "", " "])
def test_a_text_stays_a_text(text: str) -> None:
    suite = a_suite([a_task(input={text: text}, value=text)])
    assert parse_suite(suite_file(suite, "a.yaml"), "a.yaml") == suite


WORLD = """\
evalwright: 1
name: shop
agent: agent.py:answer
worlds:
  shop:
    data: shop.json
    tools: { "orders.get": { get: orders }, policy: { python: "world.py:policy" } }
defaults: { checks: [ contains: sent ] }
tasks:
  - { id: in-a-world, input: A-17, world: shop }
  - { id: without-tools, input: A-17 }
  - id: by-fixtures
    input: A-17
    fixtures: { toolResponses: [ { tool: "orders.get", response: "{% raw %}{{ it }}{% endraw %}" } ] }
"""  # noqa: E501


@pytest.fixture
def shop(evalwright: Evalwright) -> Evalwright:
    folder = evalwright.folder
    (folder / "shop.yaml").write_text(WORLD)
    (folder / "shop.json").write_text('{"orders": [{"id": "A-17", "state": "sent"}]}')
    (folder / "world.py").write_text("def policy(world): return 1\n")
    (folder / "agent.py").write_text(
        "def answer(task):\n"
        "    if task.id.startswith('without'):\n"
        "        return 'sent'\n"
        "    return str(task.call_tool('orders.get', {'id': task.input})) + 'sent'\n"
    )
    return evalwright


def test_every_tool_of_every_task_fails_in_every_way(shop: Evalwright) -> None:
    (shop.folder / "made").mkdir()
    made = shop("attack", "shop.yaml", "--faults", "--out", "made/faulty.json")
    assert made.code == 0, made.err
    assert "24 faults on 3 tasks" in made.err
    chosen = ("--fault", "error", "--fault", "stale", "--per-task", "2", "--seed", "4")
    few = yaml.safe_load(shop("attack", "shop.yaml", *chosen).out)
    assert few == yaml.safe_load(shop("attack", "shop.yaml", *chosen).out)
    faulty = [task for task in few["tasks"] if "faults" in task]
    assert len(faulty) == 4
    assert faulty[-1]["faults"] == [{"fault": "stale", "tool": "orders.get"}]
    ran = shop("run", "made/faulty.json")
    assert ran.code == 1
    rows = [
        line.split() for line in ran.out.splitlines() if "orders.get" in line and " of " in line
    ]
    assert ["error", "orders.get", "2", "0", "(0.0%)", "2", "of", "2"] in rows
    assert ["empty", "orders.get", "2", "2", "(100.0%)", "2", "of", "2"] in rows


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("shop.yaml", "--faults", "--strategy", "encoding"), "leave one out"),
        (("faulty.json", "--faults"), "already a suite of faults"),
        (("suite.json", "--faults"), "an OpenWOP suite has no faults"),
        (("bare.yaml", "--faults"), "no task has tools that could fail"),
    ],
)
def test_faults_that_cannot_be_are_refused(
    shop: Evalwright, arguments: tuple[str, ...], message: str
) -> None:
    shop.suite(a_suite())
    shop("attack", "shop.yaml", "--fault", "error", "--out", "faulty.json")
    bare = "evalwright: 1\ntasks: [{input: 1, checks: [equals: 1]}]\n"
    (shop.folder / "bare.yaml").write_text(bare)
    refused = shop("attack", *arguments)
    assert refused.code == 2
    assert message in refused.err
