"""Prints figures beside their goals, and remembers which goals were missed."""

from typing import NamedTuple


class Goal(NamedTuple):
    """The bar a figure is held to."""

    bar: float
    at_least: bool

    def is_met(self, value: float) -> bool:
        return value >= self.bar if self.at_least else value <= self.bar


def at_least(bar: float) -> Goal:
    return Goal(bar, at_least=True)


def at_most(bar: float) -> Goal:
    return Goal(bar, at_least=False)


class Board:
    """The figures of one run."""

    def __init__(self) -> None:
        self._goals = 0
        self._missed: list[str] = []
        self._heading = ""

    def heading(self, text: str, note: str = "") -> None:
        self._heading = text
        print(f"\n{text}{': ' + note if note else ''}", flush=True)

    def share(
        self, name: str, part: int, whole: int, goal: Goal | None = None, note: str = ""
    ) -> None:
        """A share in per cent of `whole`; there is no share of nothing."""
        value = part / whole if whole else 0.0
        shown = _shown(goal, "{:.0%}") if goal and goal.bar >= 0.1 else _shown(goal, "{:.1%}")
        self._row(name, whole, f"{value:.2%}", shown, self._verdict(name, value, whole, goal), note)

    def figure(
        self, name: str, n: int, value: float, goal: Goal | None = None, note: str = ""
    ) -> None:
        """A figure such as F1, or megabytes per second."""
        figure = f"{value:.3f}" if value < 2 else f"{value:.1f}"
        shown = _shown(goal, "{:.2f}" if value < 2 else "{:.0f}")
        self._row(name, n, figure, shown, self._verdict(name, value, n, goal), note)

    def summary(self) -> None:
        if self._goals:
            print(f"\n{self._goals - len(self._missed)} of {self._goals} goals met")
        for name in self._missed:
            print(f"  MISSED {name}")

    def _verdict(self, name: str, value: float, n: int, goal: Goal | None) -> str:
        if goal is None or not n:
            return ""
        self._goals += 1
        if goal.is_met(value):
            return "OK"
        self._missed.append(f"{self._heading}: {name}")
        return "MISSED"

    @staticmethod
    def _row(name: str, n: int, figure: str, goal: str, verdict: str, note: str) -> None:
        print(f"  {name:52}{n:>6}{figure:>9}  {goal:9}{verdict:7} {note}".rstrip(), flush=True)


def _shown(goal: Goal | None, form: str) -> str:
    return ("≥ " if goal.at_least else "≤ ") + form.format(goal.bar) if goal else ""
