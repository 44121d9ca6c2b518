"""The checks of checks: `not`, `any`, `all` and `at_least`."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from evalwright.scoring.checks.base import (
    NESTED,
    AnswerCheck,
    Ask,
    CheckOutcome,
    Examined,
    Preparing,
    RefusedCheck,
    Seek,
    fields,
)
from evalwright.scoring.checks.quotes import quoted

_CHECKS = {"type": "array", "minItems": 1, "items": NESTED}


class _Combined(AnswerCheck):
    inner: list[AnswerCheck]

    @cached_property
    def asks(self) -> Sequence[Ask]:
        return tuple(dict.fromkeys(ask for each in self.inner for ask in each.asks))

    @cached_property
    def seeks(self) -> Sequence[Seek]:
        return [seek for each in self.inner for seek in each.seeks]


class Not(_Combined):
    """This check does not pass. One that could not be made does not pass here either."""

    example = "not: {contains: sorry}"
    schema = NESTED

    @classmethod
    def of(cls, argument: Any, preparing: Preparing) -> AnswerCheck:
        return cls([preparing.nested(argument, "$")])

    def evaluate(self, examined: Examined) -> CheckOutcome:
        (inner,) = self.inner
        found = inner.outcome(examined)
        expected = {"not": {inner.name: found.expected}}
        if found.broken:  # nobody knows, and that is no pass
            return CheckOutcome(
                False, 0.0, expected, found.actual, found.reason, True, "missing_required_data"
            )
        if found.passed:
            told = f" {quoted(found.expected)}" if isinstance(found.expected, str) else ""
            reason = f"{inner.name}{told} holds, and must not"
            return CheckOutcome(False, 0.0, expected, found.actual, reason)
        return CheckOutcome(True, 1.0, expected, found.actual)


class _Several(_Combined):
    schema = _CHECKS

    @classmethod
    def of(cls, argument: Any, preparing: Preparing) -> AnswerCheck:
        return cls(_prepared(argument, preparing, "$"))

    def evaluate(self, examined: Examined) -> CheckOutcome:
        outcomes = [each.outcome(examined) for each in self.inner]
        broken = [each for each in outcomes if each.broken]
        if not broken:
            return self.combine(outcomes)
        # An error is never a pass.
        expected, told = self.expected(outcomes), self.told(outcomes, broken)
        return CheckOutcome(
            False, 0.0, expected, broken[0].actual, told, True, "missing_required_data"
        )

    def combine(self, outcomes: Sequence[CheckOutcome]) -> CheckOutcome:
        raise NotImplementedError

    def expected(self, outcomes: Sequence[CheckOutcome]) -> Any:
        return [each.expected for each in outcomes]

    def told(self, outcomes: Sequence[CheckOutcome], which: Sequence[CheckOutcome]) -> str:
        told = (
            f"{inner.name}: {each.reason}"
            for inner, each in zip(self.inner, outcomes, strict=True)
            if any(each is one for one in which)
        )
        return "; ".join(told)


class AnyOf(_Several):
    """At least one of these checks passes; the score is that of the best."""

    name = "any"
    example = 'any: [{equals: "yes"}, {equals: y}]'

    def combine(self, outcomes: Sequence[CheckOutcome]) -> CheckOutcome:
        best = max(outcomes, key=lambda each: (each.passed, each.score))
        if best.passed:
            return CheckOutcome(True, best.score, best.expected, best.actual)
        reason = f"none of {len(self.inner)} holds: {self.told(outcomes, outcomes)}"
        return CheckOutcome(False, best.score, self.expected(outcomes), best.actual, reason)


class AllOf(_Several):
    """All of these checks pass; the score is their mean, by weight."""

    name = "all"
    example = "all: [{contains: shipped}, {not: {contains: sorry}}]"

    def combine(self, outcomes: Sequence[CheckOutcome]) -> CheckOutcome:
        weights = [each.weight for each in self.inner]
        reached = sum(w * each.score for w, each in zip(weights, outcomes, strict=True))
        failed = [each for each in outcomes if not each.passed]
        score = min(1.0, reached / (sum(weights) or 1.0))
        actual = failed[0].actual if failed else outcomes[0].actual
        told = self.told(outcomes, failed)
        return CheckOutcome(not failed, score, self.expected(outcomes), actual, told)


class AtLeast(_Several):
    """At least `n` of these checks pass."""

    example = "at_least: {n: 2, of: [{contains: red}, {contains: green}, {contains: blue}]}"
    schema = fields(["n", "of"], n={"type": "integer", "minimum": 1}, of=_CHECKS)

    n: int = 1

    @classmethod
    def of(cls, argument: Any, preparing: Preparing) -> AnswerCheck:
        count, inner = argument["n"], _prepared(argument["of"], preparing, "$.of")
        if count > len(inner):
            remedy = f"write {len(inner)} or less, or add checks"
            message = f"{count} of {len(inner)} checks can never pass"
            raise RefusedCheck(message, remedy, "$.n")
        return cls(inner, count)

    def expected(self, _outcomes: Sequence[CheckOutcome]) -> Any:
        return f"{self.n} of {len(self.inner)}"

    def combine(self, outcomes: Sequence[CheckOutcome]) -> CheckOutcome:
        failed = [each for each in outcomes if not each.passed]
        passed = len(outcomes) - len(failed)
        expected, actual = self.expected(outcomes), f"{passed} of {len(outcomes)}"
        if passed >= self.n:
            return CheckOutcome(True, 1.0, expected, actual)
        told = self.told(outcomes, failed)
        reason = f"{actual} hold, {self.n} are wanted: {told}"
        return CheckOutcome(False, passed / self.n, expected, actual, reason)


def _prepared(documents: Sequence[Any], preparing: Preparing, path: str) -> list[AnswerCheck]:
    return [preparing.nested(each, f"{path}[{n}]") for n, each in enumerate(documents)]
