"""Models that answer by rules: the same request always gets the same reply.

The rules are a Python function or a file, `scripted:FILE` in JSON or YAML: the first match wins.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
import re2
from msgspec import UNSET, Meta, UnsetType

from evalwright.contracts.documents import open_input, parse_document
from evalwright.contracts.errors import BadInput, InvalidDocument, Problem
from evalwright.contracts.jsonvalue import canonical
from evalwright.models.config import ProviderSettings
from evalwright.models.dialects import LocalDialect
from evalwright.models.prices import Meter, Tokens
from evalwright.models.protocol import (
    Finish,
    ModelError,
    ModelErrorCode,
    Reply,
    Request,
    ToolUse,
)

CHARACTERS_PER_TOKEN = 4
SHOWN = 80
MAX_BYTES = 16 << 20

_Count = Annotated[int, Meta(ge=0)]


class ScriptedReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a scripted model replies; whatever is left out follows from the rest."""

    text: str = ""
    tool_uses: tuple[ToolUse, ...] = ()
    finish: Finish | None = None
    reasoning: str = ""
    tokens: Tokens | None = None
    latency_s: float = 0.0


Function = Callable[[Request], str | ScriptedReply | Reply | Awaitable[str | ScriptedReply | Reply]]


class ScriptedModel:
    """A model whose replies a function makes; it raises `ModelError` to fail."""

    def __init__(self, name: str, function: Function, meter: Meter | None = None) -> None:
        self.name = name if ":" in name else f"scripted:{name}"
        provider, _, model = self.name.partition(":")
        self._function = function
        self._meter = meter or Meter(provider, model)

    async def ask(self, request: Request) -> Reply:
        said = self._function(request)
        if inspect.isawaitable(said):
            said = await said
        if isinstance(said, Reply):
            return said
        if isinstance(said, str):
            said = ScriptedReply(text=said)
        if said.latency_s:
            await asyncio.sleep(said.latency_s)
        finish = said.finish or ("tools" if said.tool_uses else "stop")
        usage = self._meter.usage(said.tokens or estimate_tokens(request, said))
        return Reply(said.text, finish, usage, said.tool_uses, said.reasoning)

    async def close(self) -> None: ...


def estimate_tokens(request: Request, said: ScriptedReply) -> Tokens:
    """A fixed number of characters for a token, in both directions."""
    sent = sum(
        len(message.content) + sum(len(use.arguments) for use in message.tool_uses)
        for message in request.messages
    )
    given = len(said.text) + sum(len(use.name) + len(use.arguments) for use in said.tool_uses)
    return Tokens(-(-sent // CHARACTERS_PER_TOKEN), -(-given // CHARACTERS_PER_TOKEN))


class _RuleFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class When(_RuleFields, frozen=True):
    """Conditions that must all hold; none means always."""

    contains: str | None = None  # in the last message
    matches: str | None = None  # a regular expression, found in the last message
    user_contains: str | None = None  # in the last message of the user
    system_contains: str | None = None
    last_tool: str | None = None  # the tool whose result is the last message
    turn: Annotated[int, Meta(ge=1)] | None = None  # 1 for the first answer of a conversation
    output: str | None = None  # the name of the schema that the answer must fit


class ScriptedCall(_RuleFields, frozen=True):
    """A tool that the model asks for."""

    name: Annotated[str, Meta(min_length=1)]
    arguments: dict[str, Any] = {}


class ScriptedTokens(_RuleFields, frozen=True):
    """Tokens in place of the estimated ones."""

    input: _Count
    output: _Count


class ScriptRule(_RuleFields, frozen=True):
    """A condition, and the answer when it holds."""

    when: When = When()
    reply: str | None = None
    json: Any = UNSET
    tool_calls: Annotated[list[ScriptedCall], Meta(min_length=1)] | None = None
    refusal: str | None = None
    error: ModelErrorCode | None = None
    reasoning: str = ""
    tokens: ScriptedTokens | None = None
    latency_ms: Annotated[float, Meta(ge=0, le=600_000)] = 0

    def answers(self) -> list[str]:
        given = {
            "reply": self.reply is not None,
            "json": not isinstance(self.json, UnsetType),
            "tool_calls": self.tool_calls is not None,
            "refusal": self.refusal is not None,
            "error": self.error is not None,
        }
        return [name for name, is_given in given.items() if is_given]


def load_script(
    path: str, meter: Meter | None = None, _settings: ProviderSettings | None = None
) -> ScriptedModel:
    """The model whose rules are in a file; the meter has its price, if there is one."""
    try:
        with open_input(path) as file:
            source = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadInput(
            f"model scripted:{path}: the file cannot be read: {error.strerror}"
        ) from None
    if len(source) > MAX_BYTES:
        raise BadInput(f"model scripted:{path}: larger than {MAX_BYTES >> 20} MiB")
    rules = Script(path, parse_rules(source, path))
    return ScriptedModel(f"scripted:{path}", rules.say, meter)


def parse_rules(source: bytes, name: str) -> list[ScriptRule]:
    """Check the rules; all problems are reported at once."""
    document = parse_document(source, name)
    if not isinstance(document, list) or not document:
        remedy = "write a list of rules, each with `when` and `reply`"
        raise InvalidDocument(name, [Problem("$", "a list of rules was expected", remedy)])
    problems: list[Problem] = []
    rules = [_rule(value, f"$[{index}]", problems) for index, value in enumerate(document)]
    if problems:
        raise InvalidDocument(name, problems)
    return [rule for rule in rules if rule is not None]


def _rule(value: Any, path: str, problems: list[Problem]) -> ScriptRule | None:
    try:
        rule = msgspec.convert(value, ScriptRule)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        problems.append(Problem(path + place.rstrip("`"), message.replace("`", "'")))
        return None
    answers = rule.answers()
    if len(answers) != 1 and answers != ["reply", "tool_calls"]:
        message = f"a rule answers in one way, not {len(answers)}"
        remedy = "give one of reply, json, tool_calls, refusal, error; reply may go with tool_calls"
        problems.append(Problem(path, message, remedy))
    if rule.when.matches is not None:
        try:
            re2.compile(rule.when.matches)
        except re2.error as error:
            reason = f"not a regular expression that RE2 accepts: {error}"
            problems.append(Problem(f"{path}.when.matches", reason))
    return rule


class Script:
    """The rules of a file, ready to answer."""

    def __init__(self, name: str, rules: list[ScriptRule]) -> None:
        self._name = name
        patterns = (rule.when.matches for rule in rules)
        compiled = (each if each is None else re2.compile(each) for each in patterns)
        self._rules = list(zip(rules, compiled, strict=True))

    def say(self, request: Request) -> ScriptedReply:
        facts = _Facts(request)
        for number, (rule, pattern) in enumerate(self._rules):
            if facts.fit(rule.when, pattern):
                return self._answer(rule, number, facts)
        beginning = facts.last if len(facts.last) <= SHOWN else f"{facts.last[:SHOWN]}…"
        raise ModelError(
            "unavailable_model",
            f"{self._name}: no rule fits a request whose last message is {beginning!r}; "
            "add one, or a last rule without `when`",
        )

    def _answer(self, rule: ScriptRule, number: int, facts: "_Facts") -> ScriptedReply:
        if rule.error is not None:
            raise ModelError(rule.error, f"{self._name}: as rule $[{number}] demands")
        calls = tuple(
            ToolUse(f"call_{facts.turn}_{index}", call.name, canonical(call.arguments))
            for index, call in enumerate(rule.tool_calls or (), 1)
        )
        text = rule.reply or rule.refusal or ""
        if not isinstance(rule.json, UnsetType):
            # Its keys in the order of the file: judges give their reason first.
            text = msgspec.json.encode(rule.json).decode()
        return ScriptedReply(
            text=text,
            tool_uses=calls,
            finish="refusal" if rule.refusal is not None else None,
            reasoning=rule.reasoning,
            tokens=Tokens(rule.tokens.input, rule.tokens.output) if rule.tokens else None,
            latency_s=rule.latency_ms / 1000,
        )


class _Facts:
    def __init__(self, request: Request) -> None:
        messages = request.messages
        self.last = messages[-1].content if messages else ""
        self.user = next((m.content for m in reversed(messages) if m.role == "user"), "")
        self.system = "\n".join(m.content for m in messages if m.role == "system")
        self.turn = 1 + sum(message.role == "assistant" for message in messages)
        self.output = request.output.name if request.output else None
        if not request.messages or request.messages[-1].role != "tool":
            self.last_tool = None
        else:
            call_id = request.messages[-1].call_id
            uses = (use for message in reversed(request.messages) for use in message.tool_uses)
            self.last_tool = next((use.name for use in uses if use.call_id == call_id), None)

    def fit(self, when: When, pattern: Any) -> bool:
        return (
            (when.contains is None or when.contains in self.last)
            and (pattern is None or pattern.search(self.last) is not None)
            and (when.user_contains is None or when.user_contains in self.user)
            and (when.system_contains is None or when.system_contains in self.system)
            and (when.last_tool is None or when.last_tool == self.last_tool)
            and (when.turn is None or when.turn == self.turn)
            and (when.output is None or when.output == self.output)
        )


DIALECT = LocalDialect(load_script)
