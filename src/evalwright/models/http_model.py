"""A model behind HTTP: limits, retries, and one reply or one error in the end."""

import msgspec

from evalwright.models.dialects import HttpDialect
from evalwright.models.endpoints import Endpoint
from evalwright.models.failures import NO_MONEY, Failures, read_complaint
from evalwright.models.limits import Limiter, NoTurn
from evalwright.models.prices import Meter, Tokens
from evalwright.models.protocol import ModelError, Reply, Request
from evalwright.models.quirks import Quirks, learn
from evalwright.models.retries import RetryPolicy, is_worth_retrying, retry_after_s
from evalwright.models.transport import CallFailed, HttpAnswer, NoConnection, TooLong, Transport

FILTERED = "the provider refused the request (content filter)"


class Channel:
    """What all models of a provider share: connections, limits, retries."""

    def __init__(
        self, endpoint: Endpoint, dialect: HttpDialect, retries: RetryPolicy | None = None
    ) -> None:
        settings = endpoint.settings
        self.endpoint = endpoint
        self.dialect = dialect
        self.retries = retries or RetryPolicy(settings.retries)
        self.is_down = False  # a call was given up since the last that was answered
        self.transport = Transport(
            endpoint.base_url,
            lambda: {
                "User-Agent": "evalwright",
                **dialect.headers(None if endpoint.key is None else endpoint.key.reveal()),
            },
            settings.timeout_s,
        )
        self.limiter = Limiter(
            settings.concurrency,
            settings.requests_per_minute,
            clock=self.retries.clock,
            sleep=self.retries.sleep,
        )


class _SalvagedUsage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None

    def tokens(self) -> Tokens | None:
        sent = self.prompt_tokens if self.input_tokens is None else self.input_tokens
        said = self.completion_tokens if self.output_tokens is None else self.output_tokens
        return None if sent is None else Tokens(max(0, sent), max(0, said or 0))


class _Salvage(msgspec.Struct, gc=False):
    usage: _SalvagedUsage


_SALVAGE = msgspec.json.Decoder(_Salvage)


class HttpModel:
    """A model of a provider that is called over HTTP."""

    def __init__(self, channel: Channel, model: str, meter: Meter) -> None:
        self.name = f"{channel.endpoint.provider}:{model}"
        self._channel = channel
        self._model = model
        self._meter = meter
        self._path = channel.dialect.path(channel.endpoint, model)
        self._quirks = channel.dialect.quirks(channel.endpoint)
        self._failures = Failures(channel.endpoint, model)

    async def ask(self, request: Request) -> Reply:
        made = 0  # calls that a quirk explains: the same question was put otherwise
        while True:
            quirks = self._quirks
            try:
                answer, attempts = await self._answer(self._encode(request, quirks))
                learnt = None
                if answer.status in (400, 422):
                    learnt = learn(quirks, request, read_complaint(answer.body).text)
                if learnt is None:
                    reply = self._reply(answer, request, attempts)
                    retries = made + attempts - 1
                    return msgspec.structs.replace(reply, retries=retries) if retries else reply
            except ModelError as error:
                error.retries += made
                raise
            made += attempts
            self._quirks = self._quirks.joined(learnt)

    async def close(self) -> None:
        """Close the provider's connections; a later call opens new ones."""
        await self._channel.transport.close()

    def _encode(self, request: Request, quirks: Quirks) -> bytes:
        try:
            return self._channel.dialect.encode(request, self._model, quirks)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise self._failures.unsendable(error) from None

    def _reply(self, answer: HttpAnswer, request: Request, attempts: int) -> Reply:
        if answer.status == 200:
            try:
                return self._channel.dialect.decode(answer.body, request, self._meter)
            except ModelError as error:
                unreadable = self._failures.unreadable(error, answer)
                try:
                    unreadable.usage = self._meter.usage(
                        _SALVAGE.decode(answer.body).usage.tokens()
                    )
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ModelError):
                    unreadable.usage = None
                unreadable.retries = attempts - 1
                raise unreadable from None
        # A content filter before the model is a refusal by the provider, not a failure.
        # What the provider says about it is not an answer, and must not be judged or matched as
        # one.
        complaint = read_complaint(answer.body)
        if answer.status == 400 and complaint.is_content_filter:
            return Reply(FILTERED, "refusal", self._meter.usage(None))
        raise self._failures.refused(answer, attempts)

    async def _answer(self, body: bytes) -> tuple[HttpAnswer, int]:
        retries = self._channel.retries
        begun: float | None = None
        attempt = 0
        while True:
            attempt += 1
            try:
                async with self._channel.limiter.turn(retries.deadline(begun)) as ticket:
                    begun = retries.clock() if begun is None else begun
                    outcome = await self._post(body, ticket)
            except NoTurn as waiting:
                raise self._failures.no_turn(str(waiting), attempt - 1) from None
            if not _is_passing(outcome):
                break
            asked = retry_after_s(outcome.headers) if isinstance(outcome, HttpAnswer) else None
            if self._channel.is_down or self._channel.limiter.is_hopeless:
                break  # once a call was given up, others need not wait as long for the same result
            if (wait := retries.wait_before(attempt, begun, asked)) is None:
                break
            await retries.sleep(wait)
        if isinstance(outcome, HttpAnswer):
            self._channel.is_down = outcome.status >= 500
        else:
            self._channel.is_down = isinstance(outcome, NoConnection)
        if isinstance(outcome, CallFailed):
            raise self._failures.failed(outcome, attempt) from outcome
        return outcome, attempt

    async def _post(self, body: bytes, ticket: int) -> HttpAnswer | CallFailed:
        limiter = self._channel.limiter
        try:
            answer = await self._channel.transport.post(self._path, body)
        except CallFailed as failure:
            return failure
        if answer.status == 200:
            limiter.succeeded()
        elif answer.status == 429 and not _is_broke(answer):
            limiter.refused(ticket, retry_after_s(answer.headers))
        return answer


def _is_passing(outcome: HttpAnswer | CallFailed) -> bool:
    if isinstance(outcome, CallFailed):
        return not isinstance(outcome, TooLong)
    return is_worth_retrying(outcome.status) and not _is_broke(outcome)


def _is_broke(answer: HttpAnswer) -> bool:
    return answer.status == 429 and read_complaint(answer.body).code == NO_MONEY
