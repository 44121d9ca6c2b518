"""What judges and checks said of an answer: the shapes that logs, pages and reports share."""

from typing import Any

import msgspec

from evalwright.contracts.report import RootCause
from evalwright.contracts.run_plan import Text
from evalwright.contracts.suite import Score

UNTOLD = "the reason is not shown, as a secret is masked here"  # which it might quote a part of


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """A judge's answer to one question: its reason, then whether it is so."""

    question: Text  # the name of the question: `c1` for the first criterion of a rubric
    reason: str
    met: bool


class CheckResult(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """One check of one answer; `expected` beside `actual`, as far as they can be shown."""

    check: str
    passed: bool
    score: Score
    expected: Any = None
    actual: Any = None
    reason: str = ""
    weight: float = 1.0
    broken: bool = False  # it could not be made, and nothing passes with that
    turn: int | None = None  # of a conversation, where it is about one answer of several
    cause: RootCause | None = None  # of a failure that has another cause than most of its kind
