"""What the options of pytest ask for, as runs take it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from evalwright.cli.evaluation import RunRequest
from evalwright.cli.output import write_stdout
from evalwright.cli.results import Results
from evalwright.cli.run_options import fill_in
from evalwright.contracts.errors import EvalwrightError
from evalwright.contracts.messages import Edge, as_option, told
from evalwright.contracts.run_plan import RunOptions
from evalwright.engine.plan import refuse_combinations
from evalwright.models.config import Config, load_config
from evalwright.pytest_plugin import FORMS, OPTIONS

_NAMES = {field: f"evalwright-{name}" for name, field, *_ in OPTIONS}


def _as_option(field: str, value: str) -> str:
    return as_option(_NAMES.get(field) or field.replace("_", "-"), value)


PYTEST = Edge(_as_option)


def spoken(message: object) -> str:
    """A message with the options by their names in pytest."""
    return told(message, PYTEST)


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user wants of every run of a session."""

    agent: str | None
    agent_id: str | None
    options: RunOptions
    results: Results
    db: str | None
    config: Config
    gate: bool = False  # the bar of a suite decides on its tasks that fail

    def request(self, suite: Path | None, agent: str | None = None) -> RunRequest:
        """The same for one suite."""
        return RunRequest(
            suite=suite,
            agent=agent or self.agent,
            agent_id=self.agent_id,
            options=self.options,
            results=self.results,
            db=self.db,
            config=self.config,
        )


def asked_of(config: pytest.Config) -> SessionOptions:
    """The options of a session and its settings file; raises `pytest.UsageError`."""
    values = {field: config.getoption(f"evalwright_{field}") for _, field, *_ in OPTIONS}
    given = {field: value for field, value in values.items() if value not in (None, False)}
    places = {form: config.getoption(f"evalwright_{form}") for form in FORMS}
    try:
        return _asked(given, {form: Path(place) for form, place in places.items() if place})
    except EvalwrightError as error:
        raise pytest.UsageError(spoken(error)) from None


def _asked(given: dict[str, Any], forms: Mapping[str, Path]) -> SessionOptions:
    config = load_config(named=given.pop("config", None))
    out, gate = given.pop("out", None), given.pop("gate", False)
    results = Results(
        emit=write_stdout,
        as_json=False,
        forms={name: path.absolute() for name, path in forms.items()},
        out=Path(out).absolute() if out else None,
        quiet=True,
    )
    results.check_places()
    where = {"db": given.pop("db", None), "suites": ("here",), "concurrency": 1}
    fill_in(where, config.run, is_resumed=False)
    agent, agent_id = given.pop("agent", None), given.pop("agent_id", None)
    lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    options = RunOptions(**{**given, **lists})
    refuse_combinations(options)
    return SessionOptions(
        agent=agent,
        agent_id=agent_id,
        options=options,
        results=results,
        db=where["db"],
        config=config,
        gate=gate,
    )
