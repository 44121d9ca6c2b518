"""What can go wrong between a client and a host.

CannotEvaluate
├── HostError       the host refused, or failed; with the message and the code of its answer
└── Unreachable     no answer: no connection, a broken one, or a host that was too slow
"""

from typing import Any

from evalwright.contracts.errors import CannotEvaluate

_BAD_USAGE, _COULD_NOT = 2, 3
_NOT_THE_CALLERS_FAULT = frozenset({408, 429})


class HostError(CannotEvaluate):
    """An answer that is a refusal: its status, code, message and details."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after  # seconds
        is_refusal = 400 <= status < 500 and status not in _NOT_THE_CALLERS_FAULT
        self.exit_code = _BAD_USAGE if is_refusal else _COULD_NOT
        super().__init__(f"the host answered {status} {code}: {message}")


class Unreachable(CannotEvaluate):
    """No answer, or an incomplete one; if `may_pass`, a later try may succeed."""

    def __init__(self, message: str, *, may_pass: bool = True) -> None:
        self.may_pass = may_pass
        super().__init__(message)
