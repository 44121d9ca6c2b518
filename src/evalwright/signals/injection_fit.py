"""Whether a call does what an instruction says: the tool fits, and so does a value."""

import re
from functools import lru_cache

import msgspec
import re2

from evalwright.signals.instruction_words import VERB_KINDS
from evalwright.signals.instructions import Instruction
from evalwright.signals.provenance import Argument
from evalwright.signals.provenance_values import date_stands_in, plain_words, written_forms

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
    """An argument ready to be looked for: in its forms, and the web addresses in a longer text."""

    argument: Argument
    forms: tuple[bytes, ...]
    addresses: tuple[bytes, ...]
    is_plain: bool

    def stands_in(self, words: bytes) -> bool:
        """Whether the value, or an address in it, stands in a text."""
        return (
            any(form in words for form in self.forms)
            or any(address in words for address in self.addresses)
            or date_stands_in(self.argument.value, words)
        )

    def is_confined_to(self, passage: bytes, whole: bytes) -> bool:
        """Whether the value stands in a passage, and nowhere else in its text."""
        if not self.stands_in(passage):
            return False
        marks = (*self.forms, *self.addresses)
        return sum(map(whole.count, marks)) == sum(map(passage.count, marks))


def look_for(argument: Argument, trusted: bytes) -> Value:
    """The value of an argument; addresses that the user gave do not count."""
    forms = written_forms(argument.value)
    found = {form for url in urls_in(argument.value) for form in written_forms(url)}
    addresses = tuple(sorted(each for each in found - set(forms) if each not in trusted))
    return Value(argument, forms, addresses, _is_plain(forms))


def _is_plain(forms: tuple[bytes, ...]) -> bool:
    """A lone word or a short number, such as stands in many a sentence by chance."""
    words = forms[0].split() if forms else []
    return len(words) < 2 and all(len(word) < 4 or word.isalpha() for word in words)


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
    hits = [value for value in values if value.stands_in(instruction.sentence)]
    if instruction.passage:
        hits += [
            value
            for value in values
            if value not in hits
            and not value.is_plain
            and value.is_confined_to(instruction.passage, whole)
        ]
    if tool.kind == "read":  # Looking something up carries out an order only where it goes outside.
        hits = [value for value in hits if urls_in(value.argument.value)]
    return [hit.argument for hit in hits] if hits and _fits(tool, hits, instruction) else []


def _fits(tool: Tool, hits: list[Value], instruction: Instruction) -> bool:
    same_kind = tool.kind in instruction.kinds
    same_thing = not tool.stems.isdisjoint(stems_of(instruction.words))
    if all(hit.is_plain for hit in hits):
        return same_kind and same_thing
    return same_kind or same_thing or not tool.kind
