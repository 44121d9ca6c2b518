"""Print as JSON what users name: Python names, commands and options, exit codes, schemas.

python tools/public_interface.py               # what this tree offers, one line for each thing
python tools/public_interface.py --update FILE # list in FILE under `new` what it had not

It reads the Evalwright that is first on PYTHONPATH, so that an older tree can be asked, too. The
file begins with the command that made it.
"""

import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

PACKAGES = ("evalwright", "evalwright.client", "evalwright.agents")
WORDS = ("$comment", "$id", "description", "examples", "markdownDescription", "title")
NOT_MADE_BY_USERS = (
    "AgentTask",
    "Check",
    "ComparisonResult",
    "Evaluate",
    "Expectation",
    "RunResult",
    "TaskReport",
)
HIDDEN = ("subject", "written")  # methods that other packages of Evalwright call
NAMES = ("$defs", "patternProperties", "properties")  # of a schema: what stands there is no keyword


def main() -> int:
    now = public_interface()
    if "--update" in sys.argv[1:]:
        path = Path(sys.argv[-1])
        stored = json.loads(path.read_text("utf-8"))
        stored["new"] = additions(stored["before"], now)
        path.write_text(written(stored), "utf-8")
    else:
        print(written(now), end="")
    return 0


def written(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def public_interface() -> dict[str, str]:
    """Everything that users name, under a name of its own, with what it is."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        for name in importlib.import_module(package).__all__:
            found.update(python_name(package, name))
    from evalwright.cli.app import app

    found.update(command_line("evalwright", app))
    found.update(pytest_options())
    errors = importlib.import_module("evalwright.contracts.errors")
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.EvalwrightError):
            found[f"exit code {name}"] = str(kind.exit_code)
    schema = importlib.import_module("evalwright.contracts.schema")
    for name in [*schema.published_schemas(), *getattr(schema, "EARLIER_NAMES", ())]:
        found.update(schema_rules(f"schema {name}", schema.load_schema(name)))
    return found


def python_name(package: str, name: str) -> Iterator[tuple[str, str]]:
    """A name with its parameters, and what an object of a class has."""
    value = getattr(importlib.import_module(package), name)
    whole = f"python {package}.{name}"
    yield whole, "class" if name in NOT_MADE_BY_USERS else called(value)
    if isinstance(value, type):
        builtin = next(each for each in value.__mro__ if each.__module__ == "builtins")
        annotated = [field for each in value.__mro__ for field in inspect.get_annotations(each)]
        for member in sorted({*dir(value), *annotated} - {*dir(builtin)}):
            if not member.startswith("_") and member not in HIDDEN:
                yield f"{whole}.{member}", called(inspect.getattr_static(value, member, None))


def called(value: Any) -> str:
    """How it is called: names, kinds and defaults of parameters, without their types."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    if not callable(value):
        return "value"
    try:
        found = inspect.signature(value)
    except ValueError:
        return "(…)"
    plain = [each.replace(annotation=each.empty) for each in found.parameters.values()]
    return without_addresses(str(inspect.Signature(plain)))


def without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def command_line(path: str, command: click.Command) -> Iterator[tuple[str, str]]:
    """A command with its usage and its help, each option, and the commands below it."""
    context = click.Context(command, info_name=path)
    yield path, " ".join(command.get_usage(context).split())
    for place, text in (("help", command.help), ("examples", command.epilog)):
        if text:
            yield f"{path}: {place}", " ".join(text.split())
    helps = click.Option(["--help"], is_flag=True, help="Show this message and exit.")
    for each in [*command.params, helps]:  # click keeps its own as it was first asked for
        record = each.get_help_record(context)
        if record:
            spelling, text = record
            yield f"{path} {spelling}", " ".join(text.split())
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from command_line(f"{path} {name}", below)


def pytest_options() -> Iterator[tuple[str, str]]:
    """The options of the plugin for pytest."""
    plugin = importlib.import_module("evalwright.pytest_plugin")

    class Options:
        """What the plugin tells of its options."""

        def getgroup(self, *_: object) -> "Options":
            return self

        def addoption(self, name: str, **given: object) -> None:
            told = {key: given[key] for key in sorted(given) if key not in ("dest", "type")}
            found[f"pytest {name}"] = ", ".join(f"{key}={value}" for key, value in told.items())

    found: dict[str, str] = {}
    plugin.pytest_addoption(Options())
    return iter(found.items())


def schema_rules(place: str, schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The rules of a schema, each at its place, without the words that explain them."""
    rules = {}
    for key, value in schema.items():
        if key in NAMES:
            for name, part in value.items():
                if isinstance(part, dict):
                    yield from schema_rules(f"{place}/{name}", part)
        elif key == "items" and isinstance(value, dict):
            yield from schema_rules(f"{place}[]", value)
        elif key not in WORDS:
            rules[key] = without_words(value)
    yield place, json.dumps(rules, sort_keys=True, ensure_ascii=False)


def without_words(value: Any) -> Any:
    if isinstance(value, list):
        return [without_words(each) for each in value]
    if isinstance(value, dict):
        return {key: without_words(each) for key, each in value.items() if key not in WORDS}
    return value


def additions(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """What is new, without the parts of what is new as a whole."""
    found: list[str] = []
    for name in sorted(now.keys() - before.keys()):
        if not any(name.startswith((f"{each} ", f"{each}.", f"{each}/")) for each in found):
            found.append(name)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
