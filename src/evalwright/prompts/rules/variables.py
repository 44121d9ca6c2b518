"""Rules about variables: declared, used, and spelled one way."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from evalwright.prompts.document import Placeholder
from evalwright.prompts.findings import ANSWERED, Fix, Hit, rule
from evalwright.prompts.rules.prompt_text import Reading, Section, once
from evalwright.signals.patterns import when_used

_KEYS = ("variables", "inputs", "arguments", "parameters", "placeholders", "input_variables")
_TITLES = frozenset(
    {"variables", "inputs", "input variables", "parameters", "placeholders", "arguments"}
)
_BRACKETS = (
    r"\[([^\[\]\n]{1,80})\](?!\()|\{\{\s*([^{}\n]{1,80}?)\s*\}\}|\$\{([^{}\n]{1,80})\}"
    r"|<([A-Za-z][\w -]{0,60})>|\{([A-Za-z_]\w{0,60})\}"
)
_DECLARED = when_used(
    r"\n[ \t]*(?:[-*+]|\d+[.)]|\|)[ \t]*(?:(?:optional|required)[:,]? )?[*_]{0,2}`?"
    rf"(?:{_BRACKETS})",
    re.IGNORECASE,
)
_NAME = when_used(r"[^\]}>\n]+")
# What is not to precede the braces is looked back at: so `re` can skip to the next of them.
_SPACED = when_used(r"\{\{(?<!\$\{\{)([ \t]*)([\w.-]+)([ \t]*)\}\}")
_SPACED_ANYWHERE = when_used(r"\{\{(?:[ \t]|[\w.-]++[ \t])")
_IDENTIFIER = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$|[a-z][a-z0-9]*(?:_[a-z0-9]+)+$")
# A set of first characters, so that `re` can skip to the next of them.
_NUMBER = when_used(r"[\d*xn](?:(?<=\d)\d*|(?<=\*)|(?<=\b[xn])\b)")
_CERTAIN_STYLES = frozenset(("{{}}", "${}"))
_FILLED_STYLES = frozenset(("{{}}", "${}", "{}"))  # by programs; other brackets are for people
# What a template names itself: the variables of its loops, blocks and assignments.
_LOCAL = when_used(r"\{%[-+~]?[ \t]*(?:for|set|macro|with|import|from)\b([^%\n]{1,200})%\}")
_WORD = when_used(r"[^\W\d]\w*")
_SECTION_OF_TEMPLATE = when_used(r"\{\{~?[#^>]")  # of mustache: names inside are fields
_GIVEN = frozenset(("loop", "self", "super", "caller", "range", "now", "time", "env", "input"))
# Below a line with one of these words near its start, brackets are slots of the answer.
_ANSWER_WORDS = (
    *("output", "outputs", "format", "template", "response", "report", "structure"),
    *("example", "examples", "deliverable", "deliverables", "formatted", "structured"),
)
_LABEL_LENGTH = 60
# What a template opens and closes: blocks of Jinja and Liquid, sections of mustache. How a tag goes
# on is not looked at: a condition may have `%` in it, and several lines.
_BLOCK = when_used(
    r"\{%[-+~]?\s*(?P<end>end)?(?P<block>for|if|macro|filter|call|unless|case)\b"
    r"|\{\{~?(?P<sign>[#^/])[ \t]*[>*]?[ \t]*(?P<section>[^\W\d][\w.-]{0,60})"
    r"|(?P<comment>(?<!\{)\{#|\{\{~?!--)"
)
_LONGEST_TAG = 80  # that is cited
_WITH_BLOCKS = ("jinja", "mustache")
_VERBATIM = when_used(r"\{%[-+~]?[ \t]*(?:raw|verbatim|comment|liquid|end)\b(?![^%\n]*\bif\b)")
_ENGINES = frozenset(("jinja", "mustache", "expression", "erb"))  # braces mean other things there


@once
def declared_variables(reading: Reading) -> dict[str, int]:
    """The names that the front matter or a section declares, and where; keys are normalised."""
    fields = reading.prompt.frontmatter or {}
    if reading.prompt.type == "markdown":
        declared = list(_in_front_matter(fields))
    else:  # a prompt in YAML can be filled with the keys of its rows
        rows = fields.get("testData")
        rows = rows if isinstance(rows, list) else []
        declared = [key for row in rows if isinstance(row, dict) for key in row]
    names = dict.fromkeys(map(_key, declared), 0)
    for section in _declaring(reading):
        for match in _DECLARED.finditer(reading.text, section.body - 1, section.end):
            group = match.lastindex or 0
            if "..." not in match[group]:
                names.setdefault(_key(match[group]), match.start(group))
    return names


def _declaring(reading: Reading) -> list[Section]:
    core = reading.core_section
    return [each for each in reading.sections if each.key in _TITLES and each is not core]


def _in_front_matter(fields: dict[str, Any]) -> Iterator[str]:
    keys = (*_KEYS, "sample") if any(fields.get(key) for key in _KEYS) else ()
    for key in keys:
        value = fields.get(key)
        if isinstance(value, dict):
            yield from (each for each in value if isinstance(each, str))
        for each in value if isinstance(value, list) else ():
            name = each.get("name") if isinstance(each, dict) else each
            if isinstance(name, str):
                yield name


def _normalised(name: str) -> str:
    """One spelling for all; `DOC_1`, `DOC_X` and `DOC_*` are one variable."""
    plain = name.lower().replace("_", " ").replace("-", " ")
    return " ".join(_NUMBER.sub(" # ", plain).split()).replace("# #", "#")


_key = lru_cache(maxsize=4096)(_normalised)


@rule("PE101", "warning", "completeness")
def undefined_variable(reading: Reading) -> Iterator[Hit]:
    """A variable that the prompt uses, but the file does not declare.

    Where a file declares variables, in its front matter or in a section, each one that the prompt
    uses should be among them, or nobody fills it in. Declare it, as in `variables: [name, tone]`,
    or correct its name. Files that declare none are left alone, and so are the variables of a
    template's own loops.
    """
    declared = declared_variables(reading)
    if not declared or _SECTION_OF_TEMPLATE.search(reading.text):
        return
    seen = {*declared}
    if "{%" in reading.text:
        seen.update(map(_key, _GIVEN))
        for match in _LOCAL.finditer(reading.text):
            seen.update(map(_key, _WORD.findall(match[1])))
    for each in core_variables(reading):
        name = _key(each.name)
        base = _key(each.name.partition(".")[0])
        if name not in seen and base not in seen:
            seen.add(name)
            nearest = next(iter(declared))
            yield Hit(
                each.offset,
                f"The variable “{each.name}” is used, but not declared: declare it next to "
                f"“{_written(reading, nearest, declared[nearest])}”, or correct its name.",
            )


@once
def _answer_start(reading: Reading) -> int:
    lines = (
        place
        for place in reading.places(*_ANSWER_WORDS)
        if place - reading.lowered.rfind("\n", 0, place) < _LABEL_LENGTH
    )
    return reading.place(min(lines, default=len(reading.text)))


@once
def core_variables(reading: Reading) -> list[Placeholder]:
    """The brackets in the core that are certainly inputs: slots of an answer look the same."""
    declared = declared_variables(reading)
    in_braces = reading.prompt.kind == "template" and reading.prompt.template == "brace"
    return [
        each
        for each in reading.placeholders
        if each.style in _CERTAIN_STYLES
        or (in_braces and each.style == "{}" and not reading.is_code_at(each.offset))
        or _key(each.name) in declared
        or (_IDENTIFIER.match(each.name) and each.offset < _answer_start(reading))
    ]


@rule("PE102", "warning", "completeness", kinds=ANSWERED)
def unused_variable(reading: Reading) -> Iterator[Hit]:
    """A variable that the file declares, but the prompt never uses.

    What is filled in for it never reaches the model. Use it in the prompt, as in `Write in a
    {{tone}} tone`, or remove its declaration.
    """
    if reading.prompt.type != "markdown":
        return  # a key of a row may be for the evaluators alone
    declared = declared_variables(reading)
    if reading.core_section is None:  # what the body lists is part of the prompt: that is its use
        declared = {name: offset for name, offset in declared.items() if not offset}
    used = {
        _key(part)
        for each in reading.placeholders
        for part in (each.name, each.name.partition(".")[0])
    }
    doubtful = declared.keys() - used - {""}
    if not doubtful:
        return
    # A name may also be used without brackets, or in brackets of another kind.
    parts = []
    at = 0
    if reading.core_section is not None:
        parts.append(reading.core)
    else:
        for section in _declaring(reading):
            parts.append(reading.text[at : max(at, section.start)])
            at = max(at, section.end)
        parts.append(reading.text[at:])
    text = _normalised("".join(parts))
    for name, offset in declared.items():
        if name in doubtful and name not in text:
            written = _written(reading, name, offset)
            yield Hit(
                offset,
                f"The variable “{written}” is declared, but the prompt never uses it: write "
                f"`{{{{{written}}}}}` where its value belongs, or remove the declaration.",
            )


def _written(reading: Reading, name: str, offset: int) -> str:
    match = _NAME.match(reading.text, offset)
    return match[0].strip() if offset and match is not None else name


@rule("PE103", "info", "clarity", kinds=ANSWERED)
def mixed_placeholder_styles(reading: Reading) -> Iterator[Hit]:
    """Variables in more than one style of brackets.

    Templating fills one style and leaves the other as it is. Write all variables in the same
    brackets, `{{name}}` and `{{city}}`. Square and angle brackets, which people and models fill in,
    are no style; templates of Jinja, mustache and `${{ }}` are left alone.
    """
    if len(_FILLED_STYLES.intersection([each.style for each in reading.placeholders])) < 2:
        return
    certain = [
        each
        for each in reading.placeholders
        if each.style in _FILLED_STYLES
        and (each.style in _CERTAIN_STYLES or _IDENTIFIER.match(each.name))
        and reading.fence_at(each.offset) is None
    ]
    styles = Counter(each.style for each in certain)
    if len(styles) < 2 or reading.prompt.template in _ENGINES:
        return
    usual = max(styles, key=lambda style: (styles[style], style))
    odd = next(each for each in certain if each.style != usual)
    opening, closing = usual[: len(usual) // 2 + (usual == "${}")], usual[-(len(usual) // 2) :]
    yield Hit(
        odd.offset,
        f"“{odd.name}” is written as {odd.style}, the other variables as {usual}: write "
        f"`{opening}{odd.name}{closing}`.",
    )


@rule("PE104", "info", "clarity", fixable=True)
def uneven_placeholder_spacing(reading: Reading) -> Iterator[Hit]:
    """`{{ name }}` beside `{{name}}`.

    Simple templating takes the spaces as part of the name. The fix spells all as most are spelled.
    """
    if _SPACED_ANYWHERE.search(reading.text, reading.prompt.body_offset) is None:
        return
    found = []
    for match in _SPACED.finditer(reading.text, reading.prompt.body_offset):
        fence = reading.fence_at(match.start())
        if fence is None or not fence.is_code:
            found.append(match)
    spelled = Counter(match.group(1, 3) for match in found)
    wanted = " " if spelled[" ", " "] * 2 > len(found) else ""
    if not spelled[wanted, wanted]:
        return  # there is no other to follow
    for match in found:
        if match.group(1, 3) != (wanted, wanted):
            start, end = match.span()
            name = f"{{{{{wanted}{match[2]}{wanted}}}}}"
            message = f"`{match[0]}` is not spelled as the others: write `{name}`."
            yield Hit(start, message, Fix(start, end, name))


@rule("PE105", "error", "structure", kinds=ANSWERED)
def unclosed_template_block(reading: Reading) -> Iterator[Hit]:
    """A block of a template that is never closed, or never opened.

    A template with `{% for %}` and no `{% endfor %}`, or `{{#items}}` and no `{{/items}}`, stops
    with an error, or repeats all that follows. Close each block where its part ends. Code that
    shows templates is left alone.
    """
    if reading.prompt.template not in _WITH_BLOCKS or _VERBATIM.search(reading.text):
        return
    opened: list[re.Match[str]] = []
    for match in _blocks(reading):
        if not match["end"] and match["sign"] != "/":
            opened.append(match)
        elif opened and _named(opened[-1]) == _named(match):
            opened.pop()
        else:  # whatever comes after it may be wrong for the same reason
            if not opened:
                name = match["block"] or match["section"]
                opening = f"{{% {name} … %}}" if match["block"] else f"{{{{#{name}}}}}"
                yield Hit(
                    match.start(),
                    f"`{_tag(match)}` closes what was never opened, and the template cannot be "
                    f"filled in: write `{opening}` where its part begins, or remove it.",
                )
                return
            break
    if opened:
        last = opened[-1]
        name = last["block"] or last["section"]
        closing = f"{{% end{name} %}}" if last["block"] else f"{{{{/{name}}}}}"
        yield Hit(
            last.start(),
            f"`{_tag(last)}` is never closed, and the template cannot be filled in: write "
            f"`{closing}` where its part ends.",
        )


def _blocks(reading: Reading) -> Iterator[re.Match[str]]:
    """What opens or closes a block, outside of comments and of code that is shown."""
    commented = 0  # up to here
    for match in _BLOCK.finditer(reading.text, reading.prompt.body_offset):
        if match.start() < commented:
            continue
        fence = reading.fence_at(match.start())
        if reading.is_code_at(match.start()) if fence is None else fence.is_code:
            continue
        if not match["comment"]:
            yield match
            continue
        closing = "--}}" if "!" in match["comment"] else "#}"
        commented = reading.text.find(closing, match.end())
        if commented < 0:  # then it is none
            commented = match.end()


def _tag(match: re.Match[str]) -> str:
    closing = "%}" if match["block"] else "}}"
    tag = match.string[match.start() : match.start() + _LONGEST_TAG]
    before, end, _ = tag.partition(closing)
    return " ".join(f"{before}{end or '…'}".split())


def _named(match: re.Match[str]) -> str:
    return match["block"] or f"#{match['section']}"
