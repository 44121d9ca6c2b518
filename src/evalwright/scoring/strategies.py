"""What golden tasks of OpenWOP suites expect, as checks: a class for each published strategy.

To add one: write a module with a `GoldenCheck`, and name it in `golden.STRATEGIES`.
"""

from typing import Any, ClassVar

from evalwright.contracts.jsonvalue import has_text, is_same_text, json_equal, stringify
from evalwright.scoring.checks.base import AnswerCheck, CheckOutcome, Examined
from evalwright.scoring.checks.mismatch import first_difference, first_other_place, parsed
from evalwright.scoring.checks.quotes import quoted_json as quoted

__all__ = ["Exact", "GoldenCheck", "Included", "JsonMatch", "quoted"]


class GoldenCheck(AnswerCheck):
    """The expected value of a golden task, which an output matches or not.

    Logs hold only the score of such a task, so what differs is found where it is shown.
    """

    value: Any
    main = "value"
    output_alone = True
    is_assertion: ClassVar[bool] = False  # whether a plain text that matches is in the output

    @classmethod
    def refuse(cls, value: Any) -> str | None:  # noqa: ARG003
        """Why a value cannot be expected; it is asked of any JSON value before a run starts."""
        return None

    def matches(self, output: Any) -> bool:
        """Whether an output is as expected."""
        raise NotImplementedError

    def difference(self, output: Any) -> str:
        """Where an output that does not match differs."""
        raise NotImplementedError

    def evaluate(self, examined: Examined) -> CheckOutcome:
        passed = self.matches(examined.output)
        return CheckOutcome(passed, float(passed))


class Exact(GoldenCheck):
    """The output has the text of this value."""

    is_assertion = True

    def matches(self, output: Any) -> bool:
        if isinstance(output, str) and isinstance(self.value, str):
            return output == self.value
        return is_same_text(output, self.value)

    def difference(self, output: Any) -> str:
        got, wanted = stringify(output), stringify(self.value)
        at = first_other_place(got, wanted)
        return (
            f"the texts differ from character {at + 1} on: "
            f"expected {quoted(wanted[at:])}, got {quoted(got[at:])}"
        )


class Included(GoldenCheck):
    """The text of this value is in the text of the output."""

    name = "contains"
    is_assertion = True

    def matches(self, output: Any) -> bool:
        return has_text(output, self.value)

    def difference(self, output: Any) -> str:
        return f"{quoted(stringify(self.value))} is not in the output {quoted(stringify(output))}"


class JsonMatch(GoldenCheck):
    """The output, or the JSON that it is the text of, equals this value."""

    name = "json-match"

    def matches(self, output: Any) -> bool:
        if json_equal(output, self.value):
            return True
        return isinstance(output, str) and json_equal(parsed(output), self.value)

    def difference(self, output: Any) -> str:
        return first_difference(parsed(output), self.value, say=quoted) or ""
