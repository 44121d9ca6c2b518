"""The whole tree of errors.

EvalwrightError
├── BadInput                exit 2   usage, files, references that cannot be accepted
│   ├── InvalidDocument              a document broke rules; carries every Problem at once
│   ├── MissingKey                   a provider of models wants a key
│   ├── MissingExtra                 an optional part of the package is not installed
│   └── RunNotFound
│       └── RunPruned                the run was in the log, and was deleted
├── CannotEvaluate          exit 3   the work could not be done
│   ├── AgentBroken                  the agent's own code failed while it was loaded
│   ├── RunFailed                    the run ended `failed`; it can be resumed
│   ├── RunBusy                      another process is executing the run
│   └── StoreError                   the event log could not be read or written
│       ├── StoreUnavailable         it cannot be used now; the same may succeed later
│       ├── NotAnEventLog            a file that is no Evalwright database
│       ├── DamagedEventLog          a database that cannot be read
│       └── LogConflict              an append that would break the log
└── Interrupted             exit 130 stopped by the user; it can be resumed
"""

from typing import Any

import msgspec

from evalwright.contracts.messages import PYTHON, Edge, OptionText, Text, phrase, told


class Problem(msgspec.Struct, frozen=True):
    """One broken rule: where it is, what is wrong, and what to do about it."""

    path: str
    message: str
    remedy: Text = ""
    option: OptionText | None = None  # that is wrong, where it is no place in a document

    def below(self, path: str) -> "Problem":
        return Problem(path + self.path.removeprefix("$"), self.message, self.remedy)

    def told(self, edge: Edge) -> str:
        """In the words of an edge."""
        remedy = f" ({told(self.remedy, edge)})" if self.remedy else ""
        return f"{told(self.option or self.path, edge)}: {self.message}{remedy}"

    def __str__(self) -> str:
        return self.told(PYTHON)


class EvalwrightError(Exception):
    """Root of every error that Evalwright raises on purpose.

    What it says is a text, or a `OptionText` with options, which has a code, a field and values.
    """

    exit_code = 3

    @property
    def said(self) -> OptionText | None:
        """What it says, where that has options in it."""
        return next((each for each in self.args if isinstance(each, OptionText)), None)

    def told(self, edge: Edge) -> str:
        """What it says, in the words of an edge."""
        return str(self) if self.said is None else self.said.told(edge)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args), vars(self)


def _restored(kind: type[EvalwrightError], args: tuple[Any, ...]) -> EvalwrightError:
    return kind.__new__(kind, *args)


class BadInput(EvalwrightError):
    """Bad usage or bad input."""

    exit_code = 2


class InvalidDocument(BadInput):
    """A document that breaks one or more rules, all of them listed."""

    def __init__(self, name: str, problems: list[Problem]) -> None:
        self.name = name
        self.problems = problems
        super().__init__(name, problems)

    def told(self, edge: Edge) -> str:
        """All problems, a line each."""
        return "\n".join(f"{self.name}: {problem.told(edge)}" for problem in self.problems)

    def __str__(self) -> str:
        return self.told(PYTHON)


class MissingKey(BadInput):
    """A provider of models needs a key, and none is set."""


class MissingExtra(BadInput):
    """What was asked for must be installed first; the message has the command."""


class RunNotFound(BadInput):
    """No run has this id."""


class RunPruned(RunNotFound):
    """The run with this id was deleted; its tombstone says when."""

    def __init__(self, message: Text, pruned_us: int) -> None:
        self.pruned_us = pruned_us
        super().__init__(message)


class CannotEvaluate(EvalwrightError):
    """The evaluation could not be made."""


class AgentBroken(CannotEvaluate):
    """The agent's own code failed while it was loaded."""


class RunFailed(CannotEvaluate):
    """The run ended `failed`, with the code that its `run.failed` event carries."""

    def __init__(self, run_id: str, code: str, message: Text) -> None:
        self.run_id = run_id
        self.code = code
        said = "run {run} failed with {code}: {message}"
        super().__init__(phrase(said, code, run=run_id, message=message))


class RunBusy(CannotEvaluate):
    """Another process is executing this run."""


class StoreError(CannotEvaluate):
    """The event log could not be read or written."""


class StoreUnavailable(StoreError):
    """The event log cannot be used now; nothing was done, and the same may succeed later."""

    def __init__(self, message: Text, reason: str) -> None:
        self.reason = reason  # without the place, which is not for everybody
        super().__init__(message)


class NotAnEventLog(StoreError):
    """The file is not an Evalwright database, or is one of a newer version."""


class DamagedEventLog(StoreError):
    """The database is damaged."""


class LogConflict(StoreError):
    """An append would break the log: a gap, a second score, an event after the end."""


class Interrupted(EvalwrightError):
    """Stopped by the user; the run can be resumed."""

    exit_code = 130
