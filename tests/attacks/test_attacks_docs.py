"""The page about adversarial runs tells of every strategy and goal there is."""

import re
from pathlib import Path

from evalwright.attacks.goals import GOALS
from evalwright.attacks.strategies import STRATEGIES

PAGE = Path(__file__).parents[2] / "docs" / "adversarial.md"


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    _, _, section = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")
    lines = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert lines is not None, f"no table under {heading}"
    table = [line.strip("| \n").split(" | ") for line in lines[0].splitlines()]
    return table[2:]


def test_the_table_of_strategies_is_the_one_in_the_code() -> None:
    documented = [[name.strip("`"), about, where] for name, about, where in rows("Strategies")]
    assert documented == [
        [name, each.about, ", else ".join(each.places)] for name, each in STRATEGIES.items()
    ]


def test_the_table_of_goals_is_the_one_in_the_code() -> None:
    documented = [[name.strip("`"), about, tool.strip("`")] for name, about, tool in rows("Goals")]
    assert documented == [
        [name, goal.about, goal.tool or "none"] for name, goal in GOALS.items()
    ]  # fmt: skip
