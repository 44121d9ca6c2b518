"""The one error that handlers raise; the app turns it into the envelope of the wire."""

from typing import Any


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
