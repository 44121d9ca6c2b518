"""Templates in inputs and checks: minijinja, without a way out of it or to grow without bound.

A text that is one expression alone, `"{{ row.price | float }}"`, becomes the value of it; any other
text with `{{` or `{%` becomes a text. What a template may use is checked before it is rendered:
there are no calls, no blocks that keep text, and only filters whose results are bounded.
"""

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import msgspec
from minijinja import Environment, TemplateError

from evalwright.contracts.jsonvalue import JsonPath, child, stringify
from evalwright.contracts.messages import Text, phrase

Render: TypeAlias = Callable[[Mapping[str, Any]], Any]

MOST_OUTPUT = 1 << 20  # characters of one rendered text
MOST_CODE = 1000  # characters of one expression: the parser of minijinja overruns the stack
MOST_LOOPED = 10_000  # characters of a template with a loop
MOST_NAMES = 20  # in one expression: each may stand for a long text
MOST_TASK_BYTES = 64 << 20  # that one task takes, written out
_FUEL = 20_000

_STRING = r""""(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'"""
# Not possessive on the outside: Python 3.11.2, which Debian 12 has, then misses what is closed.
_TOKENS = re.compile(
    r"\{%-?\s*raw\s*-?%\}(?s:.*?)\{%-?\s*endraw\s*-?%\}"
    r"|\{\#(?s:.*?)\#\}"
    rf"|\{{\{{(?P<expression>(?:{_STRING}|(?!\}}\}})[^\"']){{0,{MOST_CODE}}})\}}\}}"
    rf"|\{{%(?P<block>(?:{_STRING}|(?!%\}})[^\"']){{0,{MOST_CODE}}})%\}}"
    r"|(?P<open>\{\{|\{%|\{\#)",
    re.DOTALL,
)
_LONE = re.compile(rf"\{{\{{((?:{_STRING}|(?!\}}\}})[^\"']){{0,{MOST_CODE}}})\}}\}}", re.DOTALL)
_PATH = re.compile(r"\s*([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*")
_STRINGS = re.compile(_STRING, re.DOTALL)
_FILTER = re.compile(r"\|\s*(\w*)")
_CALLED = re.compile(r"([\w.]*[\w\]\)\"'])\s*\(")
_TAGS = ("if", "elif", "else", "endif", "for", "endfor")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_WORDS = ("in", "not", "and", "or", "is", "if", "elif", "else", "range")
_CONSTANTS = ("true", "false", "none", "True", "False", "None")

# Those of minijinja whose results are no larger than what they are given.
_SAFE = frozenset(
    {"abs", "bool", "capitalize", "count", "d", "default", "first", "float", "int", "last"}
    | {"length", "lower", "max", "min", "reverse", "round", "sort", "string", "sum", "title"}
    | {"trim", "unique", "upper"}
)


class BadTemplate(Exception):
    """A template that cannot be used, or not with these values."""

    def __init__(self, message: str, remedy: Text = "", path: JsonPath = "$") -> None:
        self.message = message
        self.remedy = remedy
        self.path = path
        super().__init__(message)

    def at(self, path: JsonPath) -> "BadTemplate":
        return type(self)(self.message, self.remedy, path)


class TooMuch(BadTemplate):
    """What a suite may take is used up: there is no use in rendering more of it."""


class RenderBudget(NamedTuple):
    """What the templates of one suite may take, however little it is that says so."""

    texts: int | None = None
    suite_bytes: int | None = None  # of JSON, written out
    seconds: float | None = None  # of CPU


UNBOUNDED = RenderBudget()


class Templates:
    """Compiles values with templates in them, each once.

    A document without any mark of a template is not searched value by value.
    """

    def __init__(self, document: Any = None, budget: RenderBudget = UNBOUNDED) -> None:
        self._budget = budget
        self._texts = self._task_bytes = self._suite_bytes = 0
        self._began = time.thread_time()
        text = b"{{" if document is None else msgspec.json.encode(document)
        self.may_be = b"{{" in text or b"{%" in text
        self._written = 0  # characters of the text that is being rendered
        self._names: dict[str, str] = {}

    def begin_task(self) -> None:
        self._task_bytes = 0

    def compile(self, value: Any, path: JsonPath = "$") -> Render | None:
        """What renders a value; None for one without templates. Raises `BadTemplate`."""
        return self._compile(value, path) if self.may_be else None

    def _compile(self, value: Any, path: JsonPath) -> Render | None:
        if isinstance(value, str):
            return self._text(value, path) if "{{" in value or "{%" in value else None
        if isinstance(value, dict | list) and not _may_have_templates(value):
            return None
        if isinstance(value, dict):
            return _object(value, {k: self._compile(v, child(path, k)) for k, v in value.items()})
        if isinstance(value, list):
            return _array(value, [self._compile(v, child(path, n)) for n, v in enumerate(value)])
        return None

    def _text(self, text: str, path: JsonPath) -> Render:
        try:
            _refuse_unbounded(text)
            lone = _LONE.fullmatch(text)
            if lone is None:
                return _placed(self._template(text), path)
            plain = _PATH.fullmatch(lone[1])
            if plain is None or plain[1] in _CONSTANTS:
                return _placed(self._expression(lone[1]), path)
            return self._looked_up(_lookup(plain[1], path), path)
        except BadTemplate as bad:
            raise bad.at(path) from None

    def _template(self, text: str) -> Render:
        name = self._names.get(text)
        if name is None:
            name = self._names[text] = f"t{len(self._names)}"
            try:
                self._environment.add_template(name, text)
            except TemplateError as error:
                raise _explained(error) from None
        render = self._environment.render_template

        def rendered(values: Mapping[str, Any]) -> Any:
            self._begin()
            return self._counted(_bounded(render(name, **values)))

        return rendered

    def _expression(self, code: str) -> Render:
        evaluate = self._environment.eval_expr

        def evaluated(values: Mapping[str, Any]) -> Any:
            self._begin()
            value = evaluate(code, **values)
            if value is None and code.strip() not in _CONSTANTS:
                self._environment.render_str(f"{{{{ {code} }}}}", **values)  # is it undefined?
            return self._counted(_bounded(value) if isinstance(value, str) else _plain(value))

        return evaluated

    def _looked_up(self, find: Render, path: JsonPath) -> Render:
        def found(values: Mapping[str, Any]) -> Any:
            value = find(values)
            try:
                return self._counted(value)
            except BadTemplate as bad:
                raise bad.at(path) from None

        return found

    def _counted(self, value: Any) -> Any:
        """The value, whose bytes count for its task and its suite; raises `BadTemplate`."""
        is_plain = isinstance(value, str) and value.isascii()
        size = len(value) if is_plain else len(_encode(value))
        self._task_bytes += size
        self._suite_bytes += size
        if self._task_bytes > MOST_TASK_BYTES:
            message = f"written out, the task takes more than {MOST_TASK_BYTES >> 20} MiB"
            raise BadTemplate(message, "shorten what its templates repeat")
        if self._budget.suite_bytes is not None and self._suite_bytes > self._budget.suite_bytes:
            raise too_large(self._budget.suite_bytes)
        return value

    @cached_property
    def _environment(self) -> Environment:
        environment: Environment = Environment(
            undefined_behavior="strict",
            auto_escape_callback=lambda _name: False,
            finalizer=self._emit,
            filters=_FILTERS,
            fuel=_FUEL,
        )
        return environment

    def _begin(self) -> None:
        self._written = 0
        self._texts += 1
        texts, seconds = self._budget.texts, self._budget.seconds
        if texts is not None and self._texts > texts:
            raise TooMuch(f"there are more than {texts:,} texts to render", "send fewer tasks")
        if seconds is not None and time.thread_time() - self._began > seconds:
            raise TooMuch(f"to render it takes more than {seconds:g} s", "send fewer tasks")

    def _emit(self, value: Any) -> Any:
        text = stringify(_plain(value))
        self._written += len(text)
        if self._written > MOST_OUTPUT:
            raise ValueError(_TOO_LONG)
        return text


def _may_have_templates(value: Any) -> bool:
    """Whether a text in a value may be one; of most values this can be said at once."""
    text = msgspec.json.encode(value)
    return b"{{" in text or b"{%" in text


def _object(fields: dict[str, Any], renders: dict[str, Render | None]) -> Render | None:
    changing = [(key, render) for key, render in renders.items() if render]
    if not changing:
        return None

    def rendered(values: Mapping[str, Any]) -> dict[str, Any]:
        return {**fields, **{key: render(values) for key, render in changing}}

    return rendered


def _array(items: list[Any], renders: list[Render | None]) -> Render | None:
    if not any(renders):
        return None
    pairs = list(zip(items, renders, strict=True))

    def rendered(values: Mapping[str, Any]) -> list[Any]:
        return [item if render is None else render(values) for item, render in pairs]

    return rendered


def _lookup(name: str, path: JsonPath) -> Render:
    first, *rest = name.split(".")

    def found(values: Mapping[str, Any]) -> Any:
        try:
            value = values[first]
            for key in rest:
                value = value[key]
        except (KeyError, TypeError, IndexError):
            raise _undefined(name, values, path) from None
        return value

    return found


def _undefined(name: str, values: Mapping[str, Any], path: JsonPath) -> BadTemplate:
    from difflib import get_close_matches

    if name == "expected":
        said = "give `expected`; of rows say which column it is, with map or {@expected}"
        return BadTemplate("expected is undefined", phrase(said, "which_expected"), path)
    near = get_close_matches(name, values, 1)
    known = ", ".join(sorted(values)[:20])
    remedy = f"did you mean {near[0]}?" if near else f"known here: {known}"
    if not near:
        remedy += "; text with braces of its own stands between {% raw %} and {% endraw %}"
    return BadTemplate(f"{name} is undefined", remedy, path)


def _placed(render: Render, path: JsonPath) -> Render:
    def placed(values: Mapping[str, Any]) -> Any:
        try:
            return render(values)
        except BadTemplate as bad:
            raise bad.at(path) from None
        except TemplateError as error:
            told = _explained(error)
            name = re.search(r"`([\w.]+)` is undefined", told.message)
            raise (
                _undefined(name[1], values, path)
                if name
                else BadTemplate(told.message, told.remedy, path)
            ) from None
        except ValueError as error:
            raise BadTemplate(str(error), "shorten it", path) from None

    return placed


def too_large(most: int) -> TooMuch:
    """The end of a suite that takes more than this many bytes."""
    message = f"written out, the tasks of the suite take more than {most >> 20} MiB"
    return TooMuch(message, "split it, or shorten what its templates repeat")


_encode = msgspec.json.Encoder().encode

_TOO_LONG = f"the text would be longer than {MOST_OUTPUT:,} characters"


def _bounded(text: str) -> str:
    if len(text) > MOST_OUTPUT:
        raise BadTemplate(_TOO_LONG, "shorten it")
    return text


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | dict | list):
        return value
    try:
        return msgspec.to_builtins(list(value))
    except TypeError:
        raise BadTemplate(f"{value!r:.40} is not a value that JSON can carry") from None


def _explained(error: TemplateError) -> BadTemplate:
    first = str(error).partition("\n")[0]
    message = re.sub(r" \(in [^)]*\)$", "", first)
    return BadTemplate(f"template: {message}")


def _refuse_unbounded(text: str) -> None:
    """Refuse what could reach out of a template, or make it grow without bound."""
    has_loop = False
    for token in _TOKENS.finditer(text):
        if token["open"] is not None:
            late = "" if token["open"] == "{#" else f", or only after {MOST_CODE} characters"
            raise BadTemplate(
                f"template: {token['open']} is not closed{late}",
                "close it; text with braces of its own stands between {% raw %} and {% endraw %}",
            )
        if token["block"] is not None:
            code = token["block"].strip("-+ \t\r\n")
            tag = re.match(r"\w*", code)
            if tag is None or tag[0] not in _TAGS:
                raise BadTemplate(f"template: no such block: {code[:40]}", "use if or for")
            has_loop = has_loop or tag[0] == "for"
            _refuse_code(code)
        elif token["expression"] is not None:
            _refuse_code(token["expression"])
    if has_loop and len(text) > MOST_LOOPED:
        message = f"template: longer than {MOST_LOOPED:,} characters, and with a loop"
        raise BadTemplate(message, "shorten it")


def _refuse_code(code: str) -> None:
    if len(code) > MOST_CODE:
        message = f"template: an expression is longer than {MOST_CODE} characters"
        raise BadTemplate(message, "shorten it")
    bare = _STRINGS.sub('""', code)
    if "*" in bare or re.search(r"\brecursive\b", bare):
        raise BadTemplate("template: `*` and `recursive` are not available", "do without")
    if len(bare) > MOST_NAMES and len(_NAME.findall(bare)) > MOST_NAMES:
        message = f"template: an expression has more than {MOST_NAMES} names and words"
        raise BadTemplate(message, "split it: {{ a }}{{ b }}")
    for name in _FILTER.findall(bare):
        if name not in _SAFE and name not in _FILTERS:
            known = ", ".join(sorted([*_SAFE, *_FILTERS]))
            raise BadTemplate(f"template: no such filter: {name or '|'}", f"there are: {known}")
    for name in _CALLED.findall(re.sub(r"\|\s*\w+", "|", bare)):
        if name not in _WORDS:
            raise BadTemplate(f"template: nothing can be called here: {name}(", "use a filter")


def _join(items: Any, separator: str = "") -> str:
    texts = [stringify(_plain(item)) for item in items]
    if sum(map(len, texts)) + len(texts) * len(separator) > MOST_OUTPUT:
        raise ValueError(_TOO_LONG)
    return separator.join(texts)


def _replace(value: Any, old: str, new: str) -> str:
    text = stringify(_plain(value))
    if len(text) + text.count(old) * len(new) > MOST_OUTPUT:
        raise ValueError(_TOO_LONG)
    return text.replace(old, new)


def _to_json(value: Any) -> str:
    text: str = msgspec.json.encode(_plain(value)).decode()
    if len(text) > MOST_OUTPUT:
        raise ValueError(_TOO_LONG)
    return text


_FILTERS: dict[str, Callable[..., Any]] = {"join": _join, "replace": _replace, "tojson": _to_json}


def literal(value: Any) -> Any:
    """A value as it stands in a suite: texts with braces of their own are no templates.

    Raises `BadTemplate` for a text that cannot be written so.
    """
    if isinstance(value, dict):
        return {key: literal(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [literal(each) for each in value]
    if not isinstance(value, str) or ("{{" not in value and "{%" not in value):
        return value
    piecewise = value.replace("{", "\0").replace("\0", '{{ "{" }}') + '{{ "" }}'
    for written in ("{% raw %}" + value + "{% endraw %}", piecewise):
        with suppress(BadTemplate):
            render = Templates().compile(written)
            if (render({}) if render else written) == value:
                return written
    raise BadTemplate("its text looks like a template, and cannot be written as anything else")
