"""What the user asked for, when a suite is run or a run is resumed."""

from pathlib import Path

import msgspec

from evalwright.cli.results import Results
from evalwright.engine.plan import RunOptions


class Request(msgspec.Struct, frozen=True):
    """What the user asked for."""

    suite: Path | None
    agent: str | None
    agent_id: str | None
    model_class: str | None
    resume: str | None
    options: RunOptions
    results: Results
    db: str | None
    baseline: str | None = None
    repeat: int = 1
