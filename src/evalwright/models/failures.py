"""Errors for failed calls: the code, what happened, and the remedy."""

import msgspec

from evalwright.contracts.messages import IN_LOGS, phrase
from evalwright.models.endpoints import Endpoint
from evalwright.models.protocol import ModelError, ModelErrorCode
from evalwright.models.retries import retry_after_s
from evalwright.models.transport import CallFailed, HttpAnswer, TimedOut, TooLong

LONGEST_COMPLAINT = 300
NO_MONEY = "insufficient_quota"  # a 429 that no waiting heals

_CODES: dict[int, ModelErrorCode] = {
    401: "permission_denied",
    403: "permission_denied",
    404: "unavailable_model",
    408: "timeout",
    409: "internal_error",
    410: "unavailable_model",
    429: "rate_limited",
}
_GONE = 410
# What providers call a model that they do not run, whatever the status they answer with.
_NOT_RUN = frozenset(
    {
        "deploymentnotfound",
        "invalid_model",
        "model_decommissioned",
        "model_deprecated",
        "model_not_available",
        "model_not_found",
        "model_not_supported",
        "unavailable_model",
        "unknown_model",
        "unsupported_model",
    }
)
_FILTERED = frozenset({"content_filter", "content_policy_violation", "invalid_prompt"})


class Complaint(msgspec.Struct, frozen=True):
    """What a provider says about a refused call; not yet safe to show."""

    text: str
    code: str = ""

    @property
    def is_content_filter(self) -> bool:
        return self.code in _FILTERED

    @property
    def is_about_the_model(self) -> bool:
        return self.code.lower() in _NOT_RUN


def read_complaint(body: bytes) -> Complaint:
    """The words in an error body: of OpenAI's and Anthropic's form, another one, or plain text."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Complaint(body[:4000].decode("utf-8", "replace"))
    error = value.get("error", value) if isinstance(value, dict) else value
    if not isinstance(error, dict):
        return Complaint(error if isinstance(error, str) else _text(body))
    message = error.get("message", error.get("detail"))
    named = [error[key] for key in ("code", "param") if isinstance(error.get(key), str)]
    text = message if isinstance(message, str) else _text(body)
    code = error.get("code") or error.get("type")
    return Complaint(
        " ".join([text, *(f"[{name}]" for name in named)]), code if isinstance(code, str) else ""
    )


def _text(body: bytes) -> str:
    return body[:4000].decode("utf-8", "replace")


class Failures:
    """The errors of one model at one endpoint."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self._endpoint = endpoint
        self._about = f"{endpoint.provider}:{model} at {endpoint.base_url}"

    def refused(self, answer: HttpAnswer, attempts: int) -> ModelError:
        status = answer.status
        complaint = read_complaint(answer.body)
        code = _CODES.get(status) or _code_of(status)
        if complaint.is_about_the_model and code in ("invalid_input", "permission_denied"):
            status, code = 404, "unavailable_model"
        words = self._shown(complaint.text)
        answered = f"answered {answer.status}{_tries(attempts)}"
        message = f"{self._about} {answered}{': ' if words else ''}{words}"
        remedy = self._remedy(status, complaint.code)
        wait = retry_after_s(answer.headers) if status == 429 else None
        error = ModelError(code, f"{message}; {remedy}" if remedy else message, retry_after_s=wait)
        error.retries = attempts - 1
        return error

    def failed(self, failure: CallFailed, attempts: int) -> ModelError:
        words = f"{self._about}: {self._shown(failure.reason)}{_tries(attempts)}"
        where = f"[models.{self._endpoint.provider}] of evalwright.toml"
        if isinstance(failure, TimedOut):
            more = phrase("timeout_s in {where}, or {@model_timeout_s}, allows more", where=where)
            error = ModelError("timeout", f"{words}; {more.told(IN_LOGS)}")
        elif isinstance(failure, TooLong):
            error = ModelError("parse_error", words)
        else:
            error = ModelError("unavailable_model", f"{words}; {self._check_address()}")
        error.retries = attempts - 1
        return error

    def no_turn(self, reason: str, attempts: int) -> ModelError:
        message = f"{self._about}: {reason}{_tries(attempts)}; {self._remedy(429, '')}"
        error = ModelError("rate_limited", message)
        error.retries = max(0, attempts - 1)
        return error

    def unreadable(self, error: ModelError, answer: HttpAnswer) -> ModelError:
        beginning = self._shown(read_complaint(answer.body).text)
        message = f"{self._about}: {self._shown(error.message)}; it says {beginning!r}"
        return ModelError(error.code, message)

    def unsendable(self, error: Exception) -> ModelError:
        reason = self._shown(str(error))
        return ModelError("invalid_input", f"{self._about}: the request is not JSON: {reason}")

    def _shown(self, text: str) -> str:
        line = " ".join(self._endpoint.without_key(text).split())
        return line if len(line) <= LONGEST_COMPLAINT else f"{line[:LONGEST_COMPLAINT]}…"

    def _remedy(self, status: int, code: str) -> str:
        endpoint = self._endpoint
        if status in (401, 403):
            if endpoint.key is None and endpoint.key_env:
                return f"set the environment variable {endpoint.key_env} to a key"
            return f"check the key in {endpoint.key_env}" if endpoint.key_env else "name a key_env"
        if status == 404:
            return f"check the model's name, or {self._check_address()}"
        if status == _GONE:
            return f"this endpoint is retired: name a model elsewhere, or {self._check_address()}"
        if code == NO_MONEY:
            return "check the plan and the billing of the account"
        if status == 429:
            where = f"[models.{endpoint.provider}] of evalwright.toml"
            return f"lower concurrency or requests_per_minute in {where}"
        return self._check_address() if 300 <= status < 400 else ""

    def _check_address(self) -> str:
        name = self._endpoint.base_url_env
        file = f"base_url in [models.{self._endpoint.provider}] of evalwright.toml"
        return f"check the address ({name}, or {file})" if name else f"check the address ({file})"


def _code_of(status: int) -> ModelErrorCode:
    if 300 <= status < 400:
        return "unavailable_model"
    return "invalid_input" if 400 <= status < 500 else "internal_error"


def _tries(attempts: int) -> str:
    return f" (tried {attempts} times)" if attempts > 1 else ""
