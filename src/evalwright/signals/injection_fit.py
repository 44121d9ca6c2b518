"""Whether a call does what an instruction says: the tool fits, and so does a value."""

import re
from functools import lru_cache

import msgspec
import re2

from evalwright.signals.instruction_words import VERB_KINDS
from evalwright.signals.instructions import Instruction
from evalwright.signals.provenance import Argument
from evalwright.signals.provenance_values import Date, plain_words, read_date, written_forms

_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_URL = re2.compile(r"(?i)(?:https?://|www\.)[^\s\"'<>)\]]+")
_MAIL = re2.compile(r"[\w.+-]+@[\w-]+\.\w")
_ACCOUNT = re2.compile(r"\b[A-Z]{0,4}\d[\d -]{6,}\d\b")
_NOUNS_TOO = frozenset((b"email", b"mail", b"message", b"text", b"post"))
_STEM = 5
_LONGEST_SEARCHED = 20_000
_LONGEST_NAMED = 200


class Tool(msgspec.Struct, frozen=True, gc=False):
    """What the name of a tool says: the kind of thing it does, and to what."""

    name: bytes
    kind: str
    stems: frozenset[bytes]


@lru_cache(maxsize=4096)
def read_tool(name: str) -> Tool:
    """The meaning of a tool's name; the first verb in it says what the tool does."""
    words = plain_words(_CAMEL_CASE.sub(" ", name[:_LONGEST_NAMED]).replace(".", " ")).split()
    verb = next((word for word in words if word in VERB_KINDS), b"")
    stems = frozenset(word[:_STEM] for word in words if word != verb or verb in _NOUNS_TOO)
    return Tool(plain_words(name[:_LONGEST_NAMED]), VERB_KINDS.get(verb, ""), stems)


def stems_of(words: frozenset[bytes]) -> frozenset[bytes]:
    """The beginnings of words, so that a reservation meets what reserves."""
    return frozenset(word[:_STEM] for word in words)


class Value(msgspec.Struct, frozen=True, gc=False):
    """An argument ready to be looked for: `marks` are its forms and the web addresses in it.

    Where it stands, one of its `keys` stands: words to look for first.
    """

    argument: Argument
    marks: tuple[bytes, ...]
    keys: frozenset[bytes]
    date: Date | None
    is_telling: bool

    def stands_in(self, words: bytes) -> bool:
        """Whether the value, or a web address in it, stands in a text."""
        for mark in self.marks:
            if mark in words:
                return True
        return self.date is not None and self.date.stands_in(words)

    def is_confined_to(self, passage: bytes, whole: bytes) -> bool:
        """Whether the value stands in a passage, and nowhere else in its text."""
        if not self.stands_in(passage):
            return False
        return sum(map(whole.count, self.marks)) == sum(map(passage.count, self.marks))


def look_for(argument: Argument, trusted: bytes) -> Value | None:
    """The value of an argument, if it may stand in untrusted text: whole, as a date, or in part."""
    forms = written_forms(argument.value)
    found = {form for url in urls_in(argument.value) for form in written_forms(url)}
    addresses = sorted(each for each in found - set(forms) if each not in trusted)
    date = read_date(argument.value)
    if argument.source is None and date is None and not addresses:
        return None
    marks = (*forms, *addresses)
    keys = {max(mark.split(), key=len) for mark in marks}
    if date is not None:
        keys.add(date.months[-1].strip())
    return Value(argument, marks, frozenset(keys), date, is_telling(argument.value))


def is_telling(value: str) -> bool:
    """Whether a value is more than a lone word or a short number, which many a sentence holds."""
    words = plain_words(value[:_LONGEST_NAMED]).split()
    return len(words) > 1 or any(len(word) > 3 and not word.isalpha() for word in words)


def urls_in(value: str) -> list[str]:
    """The web addresses in a value."""
    if "://" not in value and "www." not in value.lower():
        return []
    return [match.group() for match in _URL.finditer(value[:_LONGEST_SEARCHED])]


def is_destination(value: str) -> bool:
    """Whether a value says where something goes: an address or the number of an account."""
    start = value[:_LONGEST_NAMED]
    return bool(urls_in(start) or _MAIL.search(start) or _ACCOUNT.search(start))


def matching(
    tool: Tool, values: list[Value], instruction: Instruction, whole: bytes
) -> list[Argument]:
    """The arguments that the instruction names, provided that it also fits the tool."""
    hits = []
    for value in values:
        if not instruction.may_hold(value.keys):
            continue
        in_passage = value.is_telling and instruction.pressed
        if value.stands_in(instruction.sentence) or (
            in_passage and value.is_confined_to(instruction.passage, whole)
        ):
            hits.append(value)
    if tool.kind == "read":
        hits = [value for value in hits if urls_in(value.argument.value)]
    return [hit.argument for hit in hits] if hits and _fits(tool, hits, instruction) else []


def _fits(tool: Tool, hits: list[Value], instruction: Instruction) -> bool:
    same_kind = tool.kind in instruction.kinds
    same_thing = not tool.stems.isdisjoint(stems_of(instruction.words))
    if any(hit.is_telling for hit in hits):
        return same_kind or same_thing or not tool.kind
    return same_kind and same_thing
