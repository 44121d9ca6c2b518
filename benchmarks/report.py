"""The figures as a table for people and as JSON for programs."""

import os
import platform
from collections.abc import Iterable
from typing import Any

from figures import MB, Failure, Figure

HEADINGS = ("measurement", "subject", "quantity", "median", "best", "n", "target", "met")


def table(figures: list[Figure], failures: list[Failure]) -> str:
    rows = [HEADINGS, *map(row, figures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [line(cells, widths) for cells in rows]
    lines.insert(1, line(["-" * width for width in widths], widths))
    missing = [f"not measured: {f.measurement}, {f.subject}: {f.reason}" for f in failures]
    return "\n".join([*lines, *missing])


def line(cells: Iterable[str], widths: list[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def row(figure: Figure) -> tuple[str, ...]:
    kind = figure.quantity.rpartition("_")[2]
    target = "" if figure.target is None else f"<= {amount(figure.target, kind)}"
    met = {None: "", True: "yes", False: "NO"}[figure.met]
    name = figure.quantity.removesuffix(f"_{kind}")
    values = (amount(figure.median, kind), amount(figure.best, kind), str(len(figure.samples)))
    return (figure.measurement, figure.subject, name, *values, target, met)


def amount(value: float, kind: str) -> str:
    match kind:
        case "bytes":
            return f"{value / MB:.1f} MB"
        case "seconds":
            return f"{value:.3f} s"
        case _:
            return f"{value:.2f}"


def document(
    figures: list[Figure], failures: list[Failure], setting: dict[str, Any]
) -> dict[str, Any]:
    return {
        **setting,
        "figures": [entry(figure) for figure in figures],
        "failures": [vars(failure) for failure in failures],
    }


def machine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "cpuCount": os.cpu_count(),
        "loadAtStart": os.getloadavg()[0],
    }


def footer(setting: dict[str, Any]) -> str:
    machine, versions = setting["machine"], setting["versions"]
    return (
        f"versions: {', '.join(f'{name} {number}' for name, number in versions.items())}\n"
        f"machine: Python {machine['python']}, {machine['system']}, {machine['cpuCount']} CPUs, "
        f"load {machine['loadAtStart']:.1f} at the start"
    )


def entry(figure: Figure) -> dict[str, Any]:
    derived = {"median": figure.median, "best": figure.best}
    return vars(figure) | derived | {"target": figure.target, "met": figure.met}
