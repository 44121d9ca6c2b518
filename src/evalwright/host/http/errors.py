"""The error that handlers raise, and its common forms; the app turns it into a response."""

from collections.abc import Sequence
from typing import Any

from evalwright.contracts.errors import Problem
from evalwright.contracts.messages import told
from evalwright.contracts.run_plan import ON_THE_WIRE
from evalwright.signals.masking.credentials import mask_strictly

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
    """The error for an invalid request: the first problem as message, all of them in details."""
    # Without secrets: problems may quote what the caller sent, and errors are logged.
    masked = [
        Problem(mask_strictly(each.path), mask_strictly(each.message), each.remedy)
        for each in problems[:MOST_PROBLEMS]
    ]
    details = {"problems": [shown_problem(each) for each in masked]}
    return ApiError(400, "validation_error", str(masked[0]), details)


def shown_problem(problem: Problem) -> dict[str, str]:
    """A problem as a response shows it."""
    remedy = {"remedy": told(problem.remedy, ON_THE_WIRE)} if problem.remedy else {}
    return {"path": problem.path, "message": problem.message, **remedy}


def try_again(
    status: int, code: str, message: str, seconds: int, details: dict[str, Any] | None = None
) -> ApiError:
    """A refusal that may succeed when retried after some seconds."""
    details = {**(details or {}), "retryAfter": seconds}
    return ApiError(status, code, message, details, {"Retry-After": str(seconds)})


def unavailable(message: str, seconds: int) -> ApiError:
    """The error of a host that cannot serve a request now."""
    return try_again(503, "service_unavailable", message, seconds)
