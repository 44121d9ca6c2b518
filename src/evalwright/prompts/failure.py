"""An evaluation that could not be made."""

from collections.abc import Sequence

from evalwright.contracts.events import ProviderUsage
from evalwright.contracts.prompt_result import ErrorCode
from evalwright.models.protocol import ModelError
from evalwright.models.transport import NoConnection


class EvaluationFailed(Exception):
    """A judgement that could not be made, with what was spent on it."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        usages: Sequence[ProviderUsage] = (),
        retries: int = 0,
    ) -> None:
        self.code: ErrorCode = code
        self.message = message
        self.usages = tuple(usages)
        self.retries = retries
        super().__init__(f"{code}: {message}")


def error_code(error: ModelError) -> ErrorCode:
    """The code of a model's error; that nobody answers says nothing about the model."""
    return "internal_error" if isinstance(error.__cause__, NoConnection) else error.code
