"""What the options of pytest ask for, as runs take it."""

from pathlib import Path

import pytest

from evalwright.cli.evaluation import RunRequest
from evalwright.cli.output import write_stdout
from evalwright.cli.results import Results
from evalwright.contracts.errors import EvalwrightError
from evalwright.contracts.messages import Edge, as_option, told
from evalwright.contracts.run_plan import RunOptions
from evalwright.engine.plan import refuse_combinations
from evalwright.models.config import Config, load_config
from evalwright.models.run_defaults import configured_log
from evalwright.pytest_plugin import FORMS, OPTIONS

_NAMES = {field: f"evalwright-{name}" for name, field, *_ in OPTIONS}


def _as_option(field: str, value: str) -> str:
    return as_option(_NAMES.get(field) or field.replace("_", "-"), value)


PYTEST = Edge(_as_option)


def spoken(message: object) -> str:
    """A message with the options by their names in pytest."""
    return told(message, PYTEST)


class SessionOptions(RunRequest, frozen=True, kw_only=True):
    """What the user wants of every run of a session; none of them has a suite yet."""

    config: Config
    gate: bool = False  # the bar of a suite decides on its tasks that fail


def asked_of(session: pytest.Config) -> SessionOptions:
    """The options of a session and its settings file; raises `pytest.UsageError`."""
    values = {field: session.getoption(f"evalwright_{field}") for _, field, *_ in OPTIONS}
    given = {field: value for field, value in values.items() if value not in (None, False)}
    places = {form: session.getoption(f"evalwright_{form}") for form in FORMS}
    try:
        config = load_config(named=given.pop("config", None))
        out, gate = given.pop("out", None), given.pop("gate", False)
        results = Results(
            emit=write_stdout,
            as_json=False,
            forms={form: Path(place).absolute() for form, place in places.items() if place},
            out=Path(out).absolute() if out else None,
            quiet=True,
        )
        results.check_places()
        db = configured_log(given.pop("db", None), config.run)
        agent, agent_id = given.pop("agent", None), given.pop("agent_id", None)
        lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
        options = RunOptions(**{**given, **lists})
        refuse_combinations(options)
        return SessionOptions(
            suite=None,
            agent=agent,
            agent_id=agent_id,
            options=options,
            results=results,
            db=db,
            config=config,
            gate=gate,
        )
    except EvalwrightError as error:
        raise pytest.UsageError(spoken(error)) from None
