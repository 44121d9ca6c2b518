"""A check of one turn of a conversation: any check, of the answer in that turn."""

from collections.abc import Sequence
from functools import cached_property

import msgspec

from evalwright.scoring.checks.base import AnswerCheck, Ask, CheckOutcome, Examined, TurnAsk


class OfTurn(AnswerCheck):
    """A check that looks at the answer in one turn."""

    check: AnswerCheck
    number: int

    @property
    def name(self) -> str:  # type: ignore[override]
        """That of the check."""
        return self.check.name

    @property
    def turn(self) -> int | None:
        return self.number

    @cached_property
    def asks(self) -> Sequence[Ask]:
        return [TurnAsk(self.number, ask) for ask in self.check.asks]

    def outcome(self, examined: Examined) -> CheckOutcome:
        if self.number not in examined.turns:
            reason = f"the conversation ended before turn {self.number}"
            return CheckOutcome(False, 0.0, None, None, reason)
        told = {
            ask.ask: answer
            for ask, answer in examined.told.items()
            if isinstance(ask, TurnAsk) and ask.turn == self.number
        }
        return self.check.outcome(msgspec.structs.replace(examined.turns[self.number], told=told))
