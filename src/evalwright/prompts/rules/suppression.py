"""Comments that silence rules: `<!-- prompteval-ignore PE206: the number is the user's choice -->`.

One silences rules in the next line that is not blank, or in its own where something stands before
it; with `prompteval-ignore-file`, in the whole file. In YAML the same words follow a `#`.
"""

import re
from collections.abc import Iterator

import msgspec

from evalwright.prompts.document import Prompt
from evalwright.prompts.findings import Hit, Rule
from evalwright.prompts.rules.reading import read

WHOLE_FILE = 0  # instead of a line
_SIGN = "prompteval-ignore"
_COMMENT = re.compile(
    r"(?:<!--[ \t]*prompteval-ignore(-file)?\b([^\n:>]*)(?::([^\n]*?))?[ \t]*-->"
    r"|#[ \t]*prompteval-ignore(-file)?\b([^\n:]*)(?::([^\n]*))?)"
)
_NOT_SPACE = re.compile(r"\S")
_NAMES = re.compile(r"[^\s,]+")


class IgnoreComment(msgspec.Struct, frozen=True):
    """One comment: where it stands, which rules it names, the line it is for."""

    offset: int
    names: tuple[str, ...]
    line: int
    has_reason: bool

    def covers(self, rule: Rule) -> bool:
        """Whether a rule is among those it names."""
        return any(names_rule(name, rule) for name in self.names)


def names_rule(name: str, rule: Rule) -> bool:
    """Whether a name means a rule: its name, its id, or the first characters of its id."""
    return name == rule.name or (name.startswith("PE") and rule.id.startswith(name))


def may_suppress(prompt: Prompt) -> bool:
    """Whether a file can hold such comments at all."""
    return _SIGN in prompt.text


def suppressions(prompt: Prompt) -> list[IgnoreComment]:
    """All comments that silence rules."""
    if not may_suppress(prompt):
        return []
    return [
        _suppression(prompt, match)
        for match in _COMMENT.finditer(prompt.text)
        if match[0].startswith("<") or prompt.type != "markdown"
    ]


def _suppression(prompt: Prompt, match: re.Match[str]) -> IgnoreComment:
    first = 1 if match[0].startswith("<") else 4
    whole_file, names, reason = match.group(first, first + 1, first + 2)
    line = WHOLE_FILE if whole_file else _line_after(prompt, match)
    found = tuple(_NAMES.findall(names))
    return IgnoreComment(match.start(), found, line, bool(reason and reason.strip()))


def _line_after(prompt: Prompt, match: re.Match[str]) -> int:
    start = prompt.text.rfind("\n", 0, match.start()) + 1
    if prompt.text[start : match.start()].strip():
        return read(prompt).line(match.start())
    following = _NOT_SPACE.search(prompt.text, match.end())
    return read(prompt).line(match.end() if following is None else following.start())


def unfit_suppressions(prompt: Prompt, known: tuple[Rule, ...]) -> Iterator[Hit]:
    """Comments that name no rule, a rule that does not exist, or no reason."""
    for each in suppressions(prompt):
        unknown = [name for name in each.names if not any(names_rule(name, rule) for rule in known)]
        if unknown:
            yield Hit(each.offset, f"No rule is called “{unknown[0]}”.")
        elif not each.names:
            yield Hit(each.offset, "The comment names no rule, so it silences none.")
        elif not each.has_reason:
            yield Hit(each.offset, "Say why: “prompteval-ignore RULE: the reason”.")
