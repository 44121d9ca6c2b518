"""The table of rules, and the comments that silence them.

A new rule is a function with `@rule` in the module of its theme, a new theme a module and a line in
`_THEMES`.

A comment `<!-- prompteval-ignore PE206: the number is the user's choice -->` silences rules in the
next line that is not blank, or in its own line if it follows other text; `prompteval-ignore-file`
silences them in the whole file. In YAML the same words follow a `#`; a template may have them in
its own comments, `{# … #}` and `{{! … }}`, which no model gets to see.
"""

from collections.abc import Iterator

import msgspec

from evalwright.prompts.findings import Hit, Rule, rule
from evalwright.prompts.rules import (
    clarity,
    contradiction,
    duplicates,
    json_examples,
    metadata,
    safety,
    slips,
    structure,
    task,
    variables,
)
from evalwright.prompts.rules.prompt_text import Reading
from evalwright.signals.patterns import when_used

WHOLE_FILE = 0  # instead of a line
_SIGN = "prompteval-ignore"
_COMMENT = when_used(
    r"(?:<!--[ \t]*prompteval-ignore(-file)?\b([^\n:>]*)(?::([^\n]*?))?[ \t]*-->"
    r"|\{(?:#-?|\{!(?:--)?)[ \t]*prompteval-ignore(-file)?\b([^\n:#}]*)(?::([^\n]*?))?[ \t]*"
    r"(?:-?#|(?:--)?\})\}"
    r"|#[ \t]*prompteval-ignore(-file)?\b([^\n:]*)(?::([^\n]*))?)"
)
_FIRST_GROUP = {"<": 1, "{": 4, "#": 7}
_NOT_SPACE = when_used(r"\S")
_NAMES = when_used(r"[^\s,]+")


class IgnoreComment(msgspec.Struct, frozen=True):
    """One comment: its place, the rules it names, the line it applies to."""

    offset: int
    names: tuple[str, ...]
    line: int
    has_reason: bool

    def covers(self, rule: Rule) -> bool:
        return any(names_rule(name, rule) for name in self.names)


def names_rule(name: str, rule: Rule) -> bool:
    """Whether a name means a rule: its name, its id, or the first characters of its id."""
    return name == rule.name or (name.startswith("PE") and rule.id.startswith(name))


def ignore_comments(reading: Reading) -> list[IgnoreComment]:
    """All comments that silence rules."""
    if _SIGN not in reading.text:
        return []
    comments = []
    for match in _COMMENT.finditer(reading.text):
        if match[0][0] == "#" and reading.prompt.type == "markdown":
            continue
        first = _FIRST_GROUP[match[0][0]]
        whole_file, names, reason = match.group(first, first + 1, first + 2)
        start = reading.text.rfind("\n", 0, match.start()) + 1
        if whole_file:
            line = WHOLE_FILE
        elif reading.text[start : match.start()].strip():
            line = reading.line(match.start())
        else:
            following = _NOT_SPACE.search(reading.text, match.end())
            line = reading.line(match.end() if following is None else following.start())
        has_reason = bool(reason and reason.strip())
        found = tuple(_NAMES.findall(names))
        comments.append(IgnoreComment(match.start(), found, line, has_reason))
    return comments


@rule("PE503", "warning", "structure")
def unfit_suppression(reading: Reading) -> Iterator[Hit]:
    """A comment that silences rules, but names none that exist, or gives no reason.

    Write `<!-- prompteval-ignore PE206: why -->` before the line, or `prompteval-ignore-file` for
    the whole file. A misspelled rule silences nothing.
    """
    for each in ignore_comments(reading):
        unknown = [
            name for name in each.names if not any(names_rule(name, rule) for rule in CATALOGUE)
        ]
        if unknown:
            yield Hit(
                each.offset,
                f"No rule is called “{unknown[0]}”: write an id or a name, such as “PE206” or "
                "“vague-quantifier”.",
            )
        elif not each.names:
            yield Hit(
                each.offset,
                "The comment names no rule, so it silences none: write “prompteval-ignore PE206: "
                "the number is the user's choice”.",
            )
        elif not each.has_reason:
            yield Hit(
                each.offset,
                f"Say why: “prompteval-ignore {each.names[0]}: the number is the user's choice”.",
            )


_THEMES = (
    metadata,
    variables,
    task,
    slips,
    json_examples,
    clarity,
    contradiction,
    structure,
    safety,
    duplicates,
)
_BY_ID = {
    each.id: each for theme in _THEMES for each in vars(theme).values() if isinstance(each, Rule)
}
CATALOGUE = tuple(
    rule for _, rule in sorted((_BY_ID | {unfit_suppression.id: unfit_suppression}).items())
)
