"""The one error that handlers raise, and its usual forms; the app turns it into the wire's."""

from collections.abc import Sequence
from typing import Any

from evalwright.contracts.errors import Problem

MOST_PROBLEMS = 20


class ApiError(Exception):
    """A refusal: an HTTP status, a code for programs, a message for people."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.details = details
        self.headers = headers
        super().__init__(message)


def invalid(problems: Sequence[Problem]) -> ApiError:
    """The answer to a request that breaks rules: the first in words, all of them in details."""
    shown = [_shown(problem) for problem in problems[:MOST_PROBLEMS]]
    return ApiError(400, "validation_error", str(problems[0]), {"problems": shown})


def _shown(problem: Problem) -> dict[str, str]:
    remedy = {"remedy": problem.remedy} if problem.remedy else {}
    return {"path": problem.path, "message": problem.message, **remedy}


def try_again(
    status: int, code: str, message: str, seconds: int, details: dict[str, Any] | None = None
) -> ApiError:
    """A refusal that may be none after so many seconds."""
    told = {**(details or {}), "retryAfter": seconds}
    return ApiError(status, code, message, told, {"Retry-After": str(seconds)})


def unavailable(message: str, seconds: int) -> ApiError:
    """The answer of a host that cannot do it now."""
    return try_again(503, "service_unavailable", message, seconds)
