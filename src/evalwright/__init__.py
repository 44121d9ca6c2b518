"""Evalwright: is this agent, or this prompt, good enough to ship?

    import evalwright as ew

    run = ew.run("suite.yaml", agent=answer)      # also: await ew.arun(…)
    assert run.passed, run.report()

Nothing else is imported before it is used.
"""

TYPE_CHECKING = False  # as `typing` has it, without the 10 ms that importing it takes
if TYPE_CHECKING:
    from typing import Any

    from evalwright.api import ComparisonResult as ComparisonResult
    from evalwright.api import RunResult as RunResult
    from evalwright.api import TaskReport as TaskReport
    from evalwright.api import arun as arun
    from evalwright.api import compare as compare
    from evalwright.api import lint as lint
    from evalwright.api import load as load
    from evalwright.api import run as run
    from evalwright.api import scan as scan
    from evalwright.contracts.errors import EvalwrightError as EvalwrightError

__all__ = [
    "ComparisonResult",
    "EvalwrightError",
    "RunResult",
    "TaskReport",
    "__version__",
    "arun",
    "compare",
    "lint",
    "load",
    "run",
    "scan",
]

__version__ = "0.2.0"


def __getattr__(name: str) -> "Any":
    """Import a part of the interface when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = "evalwright.contracts.errors" if name == "EvalwrightError" else "evalwright.api"
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
