"""`evalwright attack`: an adversarial suite of a golden or rubric one."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from evalwright.attacks.derive import derive
from evalwright.attacks.derived import is_derived
from evalwright.attacks.faults import FAULTS, derive_faults, has_derived_faults
from evalwright.attacks.strategies import STRATEGIES
from evalwright.cli.output import check_place, echo, room, say, write_file, write_stdout
from evalwright.contracts.coverage import NO_CLAIMS, Claims
from evalwright.contracts.errors import BadInput
from evalwright.contracts.short_names import suite_name
from evalwright.contracts.suite import Suite
from evalwright.contracts.yaml_writer import to_yaml
from evalwright.engine.suites.loader import read_subject
from evalwright.engine.task_names import TaskNames
from evalwright.reports.formats.console import definitions
from evalwright.scoring.checks.base import CodeAsk
from evalwright.scoring.checks.table import prepare_checks

EXAMPLES = """\b
Examples:
  evalwright attack suite.yaml --out attacked.yaml
  evalwright attack suite.yaml --strategy role-play --strategy encoding --seed 7
  evalwright attack suite.yaml --per-task 3 --out attacked.json
  evalwright attack suite.yaml --faults --out faulty.yaml
  evalwright attack --list
"""
_MOST_NAMED = 5
_YAML_ENDINGS = (".yaml", ".yml")


@click.command(epilog=EXAMPLES)
@click.argument("suite", required=False, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write the suite to this file, as YAML or JSON by its name; by default to stdout.",
)
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    type=click.Choice(list(STRATEGIES)),
    metavar="NAME",
    help="A strategy; may be given several times. By default all of them.",
)
@click.option(
    "--faults", is_flag=True, help="Let the tools of the tasks fail instead: with every fault."
)
@click.option(
    "--fault",
    "kinds",
    multiple=True,
    type=click.Choice(FAULTS),
    help="A fault; may be given several times.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the attacks.")
@click.option("--per-task", type=click.IntRange(1), help="The most attacks per task.")
@click.option("--list", "listing", is_flag=True, help="List the strategies and exit.")
def command(
    *,
    suite: Path | None,
    out: Path | None,
    strategies: tuple[str, ...],
    faults: bool,
    kinds: tuple[str, ...],
    seed: int,
    per_task: int | None,
    listing: bool,
) -> None:
    """Derive an adversarial suite from SUITE: its tasks, and each again with attacks in it.

    The expected answers stay the same, as do the agent, the modes and the bars. The same suite,
    strategies and seed give the same attacks. With --faults, the tools of the tasks fail instead.
    Run the result with `evalwright run`.
    """
    if listing:
        about = [(name, strategy.about) for name, strategy in STRATEGIES.items()]
        echo("\n".join(definitions(about, room())), styled=True)
        return
    if suite is None:
        raise BadInput("name a suite, or --list the strategies; try `attack --help`")
    if out is not None:
        check_place(out)
        if out.exists():
            raise BadInput(f"--out {out}: already exists; name another file, or remove it first")
    if (faults or kinds) and strategies:
        raise BadInput("--strategy is of attacks, and --faults has none: leave one out")
    subject = read_subject(suite, None)
    golden = subject.suite
    if golden.modes == ["adversarial"] or is_derived(golden.suite_id):
        raise BadInput(f"{suite}: already a suite of attacks; name the suite it came from")
    if faults or kinds:
        refuse_faults(golden, suite)
        derived, what = derive_faults(golden, kinds, seed, per_task), "fault"
    else:
        derived, what = derive(golden, strategies, seed, per_task), "attack"
    home, folder = suite.parent, (out or suite).parent
    agent = subject.agent and _reference_from(folder, subject.agent)
    if folder != home:
        derived = replace(derived, suite=_moved(derived.suite, folder, home))
    document = suite_file(derived.suite, (out or suite).name, agent, subject.claims)
    if out is None:
        write_stdout(document)
    else:
        write_file(out, [document])
    count = derived.attacks
    plain = len(derived.suite.tasks) - count
    where = f" in {out}" if out else ""
    say(
        f"{suite_name(derived.suite.suite_id)}: {count} {what}{'s' if count != 1 else ''} "
        f"on {plain} task{'s' if plain != 1 else ''}{where}"
    )
    skipped: dict[str, list[str]] = {}
    names = TaskNames.of_tasks(derived.suite.tasks)
    for each in derived.skipped:
        skipped.setdefault(each.strategy, []).append(names.name_of(each.task_id))
    for name, task_ids in skipped.items():
        places = " or ".join(STRATEGIES[name].places)
        more = "" if len(task_ids) <= _MOST_NAMED else f" and {len(task_ids) - _MOST_NAMED} more"
        named = ", ".join(task_ids[:_MOST_NAMED])
        say(f"skipped: {name} finds no {places} with text in {named}{more}")


def _reference_from(folder: Path, agent: str) -> str:
    """The reference of an agent as a suite in a folder must say it, where the agent is a file."""
    code, colon, name = agent.rpartition(":")
    file, ending = (code, colon + name) if code.endswith(".py") else (agent, "")
    if not ending:
        file, mark, name = agent.partition("#")
        ending = mark + name
    if not Path(file).exists():
        return agent
    return Path(os.path.relpath(file, folder)).as_posix() + ending


def refuse_faults(suite: Suite, path: Path) -> None:
    """Refuse to derive faults from a suite that cannot have more of them; raises `BadInput`."""
    if not suite.has_checks:
        raise BadInput(f"{path}: an OpenWOP suite has no faults; they are of suites with checks")
    if has_derived_faults(suite.suite_id):
        raise BadInput(f"{path}: already a suite of faults; name the suite it came from")


def _moved(suite: Suite, folder: Path, home: Path) -> Suite:
    """The suite as a file in a folder must say it, where it names functions of its own."""
    tasks = []
    for task in suite.tasks:
        checks = task.expected.checks or []
        prepared, _ = prepare_checks(checks, "$")
        found = {
            ask.function: _function_from(folder, ask.function, home)
            for each in prepared
            for ask in each.asks
            if isinstance(ask, CodeAsk)
        }
        if found:
            checks = [_with_functions(check, found) for check in checks]
            task = replace(task, expected=replace(task.expected, checks=checks))  # noqa: PLW2901
        tasks.append(task)
    worlds = {}
    for name, world in suite.worlds.items():
        tools = dict(world.tools)
        for tool, of in tools.items():
            if of.python is not None:
                tools[tool] = replace(of, python=_function_from(folder, of.python, home))
        worlds[name] = replace(world, tools=tools)
    return replace(suite, tasks=tasks, worlds=worlds)


def _function_from(folder: Path, function: str, home: Path) -> str:
    """The reference of a function that a suite in another folder found from there."""
    source, _, name = function.rpartition(":")
    file = home / (source if source.endswith(".py") else source.replace(".", "/") + ".py")
    if not file.is_file():
        return function
    return f"{Path(os.path.relpath(file, folder)).as_posix()}:{name}"


def _with_functions(check: Any, found: Mapping[str, str]) -> Any:
    if isinstance(check, list):
        return [_with_functions(each, found) for each in check]
    if not isinstance(check, dict):
        return check
    moved = {key: _with_functions(value, found) for key, value in check.items()}
    for of, name in ((moved, "python"), (moved.get("python"), "function")):
        if isinstance(of, dict) and isinstance(of.get(name), str):
            of[name] = found.get(of[name], of[name])
    return moved


def suite_file(
    suite: Suite, name: str, agent: str | None = None, claims: Claims = NO_CLAIMS
) -> bytes:
    """The suite as a file of this name holds it; what nobody can see is escaped.

    Only a suite with checks names its agent.
    """
    if suite.has_checks:
        from evalwright.engine.suites.export import to_document

        value = to_document(suite, agent, claims)
    else:
        value = msgspec.json.decode(msgspec.json.encode(suite))
    if name.lower().endswith(_YAML_ENDINGS):
        return to_yaml(value).encode()
    return (json.dumps(value, indent=2) + "\n").encode()
