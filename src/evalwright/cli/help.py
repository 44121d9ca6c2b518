"""The help of a command: many options stand in groups, in characters that the terminal knows."""

import re
from collections.abc import Iterable

import click

from evalwright.cli.output import Streams
from evalwright.reports.formats.console import encoded

_MOST_UNGROUPED = 16
_NAME = re.compile(r"--[a-z-]+")
OTHERS = "Options"  # in no group
GROUPS = {
    "What is evaluated": "--suite --task --tagged --limit --sample --seed --failed --errors "
    "--input --expected --id --check --mode --kinds --max --cases --tier --select --ignore "
    "--all-kinds",
    "Agent and model": "--agent --host --model --agent-id --model-class --allow-mismatch "
    "--user-model --agent-tools --agent-usage --observe --otlp --tools --read-only --gateway "
    "--isolate",
    "Judges": "--judge --judge-samples --embedding-model --allow-self-judge --runs",
    "Bars and baseline": "--baseline --new --allow-partial --allow-no-baseline --repeat --flaky-as "
    "--fail-on --fail-under --threshold --suppress",
    "Limits": "--concurrency --timeout --run-timeout --scoring-timeout --model-timeout --max-cost "
    "--task-cost --max-tokens-total --jobs --on",
    "Recorded answers of models": "--cassette --record",
    "The run": "--resume --workers --priority --watch --fix --push --tag --title",
    "Results": "--junit --csv --markdown --html --codequality --sarif --github --out --format "
    "--report-id --minimal --with-host-info --quiet --show-secrets --json",
    "Settings and lists": "--config --db --list-tiers --list-models --list-rules --help",
}
_GROUP_OF = {name: title for title, names in GROUPS.items() for name in names.split()}


class HelpFormatter(click.HelpFormatter):
    """Sets options in groups where there are many."""

    _is_of_options = False

    def write_heading(self, heading: str) -> None:
        """Write a heading, but that of options, which is written with them."""
        self._is_of_options = heading == OTHERS
        if not self._is_of_options:
            super().write_heading(heading)

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        """Write options with what they do, or other definitions."""
        if not self._is_of_options:
            super().write_dl(rows, col_max, col_spacing)
            return
        self.dedent()
        rows = list(rows)
        are_many = len(rows) > _MOST_UNGROUPED
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in GROUPS}
        for row in rows:
            title = _GROUP_OF.get(_NAME.findall(row[0])[0], OTHERS) if are_many else OTHERS
            groups.setdefault(title, []).append(row)
        shown = [(title, of_group) for title, of_group in groups.items() if of_group]
        for number, (title, of_group) in enumerate(shown):
            if number:
                self.write_paragraph()
            super().write_heading(title)
            self.indent()
            super().write_dl(of_group, col_max, col_spacing)
            self.dedent()
        self.indent()


class HelpContext(click.Context):
    """The context of a command."""

    formatter_class = HelpFormatter

    def get_help(self) -> str:
        """The help; click itself would write UTF-8 to a terminal that asks for ASCII."""
        encoding = Streams.out.encoding
        return encoded(super().get_help(), encoding).decode(encoding)
