"""Options for the forms of a report: one for each that the table holds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from evalwright.reports.forms import FORMS_OF, Subject

_Command = TypeVar("_Command", bound=Callable[..., Any])


def form_options(subject: Subject, help_text: str) -> Callable[[_Command], _Command]:
    """An option per form of a subject, with its `{title}` in the help text."""

    def with_options(command: _Command) -> _Command:
        for form in reversed(FORMS_OF[subject].values()):
            told = help_text.format(title=form.title)
            path = click.Path(path_type=Path)
            command = click.option(f"--{form.name}", type=path, help=told)(command)
        return command

    return with_options


def wanted_forms(subject: Subject, given: dict[str, Any]) -> dict[str, Path]:
    """The forms that were asked for, and where to write them; taken out of the options."""
    asked = {name: given.pop(name) for name in FORMS_OF[subject]}
    return {name: path for name, path in asked.items() if path is not None}
