"""Write `docs/python-api.md` from the docstrings of what `import evalwright` offers.

python tools/api_page.py          # write the page
python tools/api_page.py --check  # exit code 1 if it is not current
"""

import ast
import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import evalwright

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "python-api.md"
LONGEST = 88

TITLES = {
    "suites": "Suites and tasks",
    "worlds": "Worlds",
    "checks": "Checks",
    "check_objects": "Own checks",
    "expectation": "Expectations",
    "single_answer": "Evaluations in tests",
    "suite_run": "Running",
    "runs": "Results of runs",
    "comparison_result": "Comparing",
    "baselines": "Baselines",
    "power": "Evidence",
    "scan_and_lint": "Traces and prompts",
    "python": "Agents",
    "errors": "Errors",
}
FIXTURES = {"Evaluate": "evaluate"}  # types of fixtures: how a test calls them
BESIDE = {
    "python": ("toolbox", "answers", "own_tools")
}  # modules whose names stand in the same section
INTRODUCTION = """\
# Python reference

What `import evalwright as ew` offers, name by name. [Python](python.md) shows how it is used.
This page is written from the docstrings by `tools/api_page.py`, and a test holds it to them.

`__version__` is the version of the package.
"""


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text("utf-8") == text else 1
    PAGE.write_text(text, "utf-8")
    return 0


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for module, title in TITLES.items():
        parts.append(f"## {title}\n")
        for each in (module, *BESIDE.get(module, ())):
            parts += [entry(name, each) for name in offered(each)]
    parts.append("## Types\n\nShort names of types that signatures above use.\n")
    parts.append("| name | stands for |\n| --- | --- |\n" + "\n".join(aliases()))
    return "\n".join(parts).rstrip() + "\n"


def aliases() -> Iterator[str]:
    """The short names of types, and what each of them is."""
    for module in TITLES:
        for node in ast.parse(source_of(module)).body:
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
                assert node.value is not None
                told = escaped(f"`{ast.unparse(node.value)}`")
                yield f"| `{ast.unparse(node.target)}` | {told} |"


def offered(module: str) -> list[str]:
    """The public names of a module, in the order of its source."""
    names = [name for name in evalwright.__all__ if home_of(name) == module]
    order = [name for node in ast.parse(source_of(module)).body for name in defined_by(node)]
    return sorted(names, key=order.index)


def defined_by(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [each.id for each in node.targets if isinstance(each, ast.Name)]
    return []


def home_of(name: str) -> str | None:
    if name == "__version__":
        return None
    for home, names in evalwright._HOMES.items():
        if name in names.split():
            return home.rpartition(".")[2]
    return "checks"


def module_named(module: str) -> Any:
    agents = dict.fromkeys(("python", "toolbox", "answers", "own_tools"), "agents")
    room = {"errors": "contracts", **agents}.get(module, "api")
    return importlib.import_module(f"evalwright.{room}.{module}")


def source_of(module: str) -> str:
    return inspect.getsource(module_named(module))


def entry(name: str, module: str) -> str:
    """One name with its signature and its docstring."""
    value = getattr(evalwright, name)
    node = definition(name if callable(value) else type(value).__name__, module)
    lines = [f"### `{name}`\n"]
    if isinstance(node, ast.ClassDef):
        lines += class_lines(name, node, is_instance=not callable(value))
    else:
        lines += [block(signature(node, name)), text_of(node)]
    return "\n".join(lines)


def definition(name: str, module: str) -> Any:
    """The last definition: that after the overloads of it."""
    body = ast.parse(source_of(module)).body
    return [node for node in body if name in defined_by(node)][-1]


def class_lines(name: str, node: ast.ClassDef, *, is_instance: bool) -> Iterator[str]:
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    made = next((each for each in methods if each.name == "__init__"), None)
    if made is not None and name in ("Suite", "Task"):
        yield block(signature(made, name).replace("-> None", f"-> {name}"))
    call = next((each for each in methods if each.name == "__call__"), None)
    if call is not None and name in FIXTURES:
        yield block(signature(call, FIXTURES[name]))
    yield text_of(node)
    if call is not None and name in FIXTURES:
        yield text_of(call)
    rows = [*fields(node), *(row(each, name) for each in methods if not each.name.startswith("_"))]
    hidden = ("written", "subject")
    shown = [each for each in rows if not any(f"`{each_}(" in each for each_ in hidden)]
    if shown:
        what = "call" if is_instance else "has"
        yield f"| {what} | |\n| --- | --- |"
        yield "\n".join(shown) + "\n"


def fields(node: ast.ClassDef) -> Iterator[str]:
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield f"| `{each.target.id}` | {escaped(f'`{ast.unparse(each.annotation)}`')} |"
    made = next((m for m in node.body if getattr(m, "name", "") == "__init__"), None)
    for each in ast.walk(made) if made else ():
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Attribute):
            name = each.target.attr
            if not name.startswith("_"):
                yield f"| `{name}` | {escaped(f'`{ast.unparse(each.annotation)}`')} |"


def row(node: ast.FunctionDef, owner: str) -> str:
    kinds = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
    called = node.name
    if not kinds & {"property", "cached_property"}:
        arguments = ", ".join(
            [
                each.arg
                for each in (*node.args.posonlyargs, *node.args.args)
                if each.arg not in ("self", "cls")
            ]
            + [f"*{node.args.vararg.arg}" for _ in [0] if node.args.vararg]
            + [f"{each.arg}=…" for each in node.args.kwonlyargs]
            + [f"**{node.args.kwarg.arg}" for _ in [0] if node.args.kwarg]
        )
        called = f"{owner}.{node.name}" if "classmethod" in kinds else node.name
        called = f"{called}({arguments})"
    told = " ".join((ast.get_docstring(node) or "").split())
    return f"| `{called}` | {escaped(told)} |"


def escaped(text: str) -> str:
    return text.replace("|", "\\|")


def text_of(node: Any) -> str:
    return (ast.get_docstring(node) or "").strip() + "\n"


def block(code: str) -> str:
    quoted = code.replace("'", '"')  # as everywhere else
    return f"```python\n{quoted}\n```\n"


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> str:
    """The head of a function as it is written, on one line or with a line for each parameter."""
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    given = list(parameters(node.args))
    line = f"{kind} {name}({', '.join(given)}){returns}: ..."
    if len(line) <= LONGEST:
        return line
    inner = "".join(f"    {each},\n" for each in given)
    return f"{kind} {name}(\n{inner}){returns}: ..."


def parameters(args: ast.arguments) -> Iterator[str]:
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + list(args.defaults)
    for number, (each, default) in enumerate(zip(positional, defaults, strict=True), 1):
        if each.arg != "self":
            yield one(each, default)
        if args.posonlyargs and number == len(args.posonlyargs):
            yield "/"
    if args.vararg:
        yield f"*{one(args.vararg, None)}"
    elif args.kwonlyargs:
        yield "*"
    for each, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield one(each, default)
    if args.kwarg:
        yield f"**{one(args.kwarg, None)}"


def one(argument: ast.arg, default: ast.expr | None) -> str:
    typed = f": {ast.unparse(argument.annotation)}" if argument.annotation else ""
    if default is None:
        return f"{argument.arg}{typed}"
    told = ast.unparse(default).replace("NOT_GIVEN", "...")
    return f"{argument.arg}{typed} = {told}"


if __name__ == "__main__":
    sys.exit(main())
