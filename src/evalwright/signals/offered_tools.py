"""Passages that offer tools: they tell what an agent could do, and ask for nothing.

A catalogue may stand in any message as a schema, as tags, as a list or in a sentence. A passage is
one only if it names a tool that the trace knows, so that what users write as lists stays theirs.
"""

import re
from collections.abc import Collection, Iterator

import msgspec
import re2

from evalwright.trace.cached import recent

_IDENTIFIER = r"[A-Za-z_][\w.-]*\w"
_BRACKETS = re.compile(r"[\[\]{}]")  # found one by one, as words are
_SCHEMA = re2.compile(
    r"""(?i)["'](?:name|description|parameters|properties|input_?schema|signature|docstring"""
    r"""|summary|usage|args|arguments|inputs)\\?["']\s*:"""
)
_NAMES_ONLY = re2.compile(rf"""[\[{{(\s]*(?:\\?["'`]?{_IDENTIFIER}\\?["'`]?[\s,\]}})]*)+""")
_TAG = re2.compile(r"(?i)<(/?)([\w-]*(?:tool|function|api|plugin|command|action)[\w-]*)\b[^<>]*>")
# `- send_mail: Sends a mail`, `1. **SendMail**(to, text)`, `Name: send_mail`, `def send_mail(to):`
_BULLET = r"[ \t>*+#\x{2022}\x{b7}\x{2013}-]*(?:\(?\d+[.)][ \t]*)?"
_LABEL = r"(?:[*_]*[A-Za-z]+(?:[ _][A-Za-z]+)?[*_]*[ \t]*[:=][ \t]*)?"
_QUOTES = r"[`\"'*_]*"
_THEN = r"(?:[:=\x{2192}\x{2013}\x{2014}]|->?)"
_ENTRY = re2.compile(
    rf"{_BULLET}{_LABEL}(?:declare |export )?(?:async )?((?:def|function|type|fn|func) )?"
    rf"{_QUOTES}({_IDENTIFIER}){_QUOTES}[ \t]*(?:$|[(\[<].*|{_THEN}{_QUOTES}(?:[ \t].*)?)"
)
_TOLD = re2.compile(rf"{_THEN}{_QUOTES}[ \t]+\S+[ \t]+\S+|[)\]>][ \t,]+\w+")
_LIKE_A_NAME = re.compile(r"[a-z0-9][_.-][a-z]|[a-z][A-Z]|_")  # on one word, sooner than RE2
_SENTENCE = re2.compile(r"(?:[^.!?\n]|[.!?]\S)+")
_WORD = re.compile(_IDENTIFIER, re.ASCII)  # found one by one, of which RE2 makes more work
# What says that something is there to be used, by language.
_OFFERING = {
    "en": r"tools?\b.{0,60}\b(?:available|at hand|disposal|provided|offered|use)\b"
    r"|\b(?:available|following|these|your|access to|equipped with|provided with|set of|list of)\b"
    r".{0,40}\b(?:tools?|functions?|actions?|commands?|apis?|plugins?|skills?)\b"
    r"|\b(?:tools?|functions?|actions?|commands?|apis?|plugins?)(?: list)?:",
    "de": r"(?:werkzeuge?n?|tools?|funktionen|befehle)\b",
    "es": r"herramientas?|funciones|comandos",
    "fr": r"outils?|fonctions|commandes",
    "ru": r"инструмент|функци|команд",
    "zh": r"工具|函数|命令|功能",
    "ja": r"ツール|関数|コマンド|機能",
}
_OFFERS = re2.compile(rf"(?i){'|'.join(_OFFERING.values())}")
_BELOW = " \t|/"  # how lines begin that belong to an entry: indented, a table, a comment
_FEWEST_LISTED = 2
_LONGEST_SEARCHED = 400_000


class Passage(msgspec.Struct, frozen=True, gc=False):
    """Where a passage stands that may offer tools, and the names it may offer them by."""

    start: int
    end: int
    names: frozenset[str]
    is_schema: bool = False


def without_offers(said: str, tools: Collection[str]) -> str:
    """What somebody said, without the passages that only offer tools."""
    if not any(name in said for name in tools):
        return said
    passages = _passages(said)
    offers = [each for each in passages if not each.names.isdisjoint(tools)]
    if any(each.is_schema for each in offers):
        offers += [each for each in passages if each.is_schema]
    kept, done = [], 0
    for each in sorted(offers, key=lambda passage: passage.start):
        kept.append(said[done : max(done, each.start)])
        done = max(done, each.end)
    return "\n".join([*kept, said[done:]])


@recent(128, 8)  # a catalogue is mostly the same in many traces, and so is what a user asks for
def _passages(said: str) -> list[Passage]:
    said = said[:_LONGEST_SEARCHED]
    return [*_in_brackets(said), *_in_tags(said), *_in_lines(said), *_in_sentences(said)]


def _in_brackets(said: str) -> Iterator[Passage]:
    for start, end in _outermost(said):
        inside = said[start:end]
        schema = _SCHEMA.search(inside) is not None
        names = _names_in(inside)
        if schema or (len(names) >= _FEWEST_LISTED and _NAMES_ONLY.fullmatch(inside)):
            yield Passage(start, end, names, schema)


def _outermost(said: str) -> list[tuple[int, int]]:
    """The regions between brackets that match, but for those inside others."""
    opened: list[int] = []
    regions: list[tuple[int, int]] = []
    for match in _BRACKETS.finditer(said):
        if match.group() in "[{":
            opened.append(match.start())
        elif opened:
            start = opened.pop()
            while regions and regions[-1][0] > start:
                regions.pop()
            regions.append((start, match.end()))
    return regions


def _in_tags(said: str) -> Iterator[Passage]:
    opened: tuple[str, int] | None = None
    for match in _TAG.finditer(said):
        name = match.group(2).lower()
        if opened is None:
            opened = None if match.group(1) else (name, match.start())
        elif match.group(1) and name == opened[0]:
            yield Passage(opened[1], match.end(), _names_in(said[opened[1] : match.end()]))
            opened = None


def _in_lines(said: str) -> Iterator[Passage]:
    """Lists of tools: entries that begin with names, and what stands below them and tells more."""
    entries: list[tuple[str, bool]] = []
    start = end = place = 0
    goes_on = ""  # what the lines below a name belong to: its paragraph, or its section
    for line in said.split("\n"):
        entry = _ENTRY.fullmatch(line) if line else None
        if entry is not None:
            start = start if entries else place
            told = bool(entry.group(1)) or _TOLD.search(line) is not None
            entries.append((entry.group(2), told))
            goes_on = "section" if line[0] == "#" else "" if told else "paragraph"
        elif not line or line.isspace():
            goes_on = goes_on if goes_on == "section" else ""
        elif entries and goes_on:
            entries[-1] = (entries[-1][0], True)
            goes_on = "paragraph"
        elif entries and line[0] not in _BELOW:
            yield from _listed(entries, start, end)
            entries = []
        place += len(line) + 1
        end = place - 1
    yield from _listed(entries, start, end)


def _listed(entries: list[tuple[str, bool]], start: int, end: int) -> Iterator[Passage]:
    if len(entries) >= _FEWEST_LISTED or any(told for _, told in entries):
        yield Passage(start, end, frozenset(name for name, _ in entries))


def _in_sentences(said: str) -> Iterator[Passage]:
    if not _OFFERS.search(said):
        return
    for match in _SENTENCE.finditer(said):
        sentence = match.group()
        names = _names_in(sentence)
        if names and _OFFERS.search(sentence):
            listed = sum(_LIKE_A_NAME.search(name) is not None for name in names)
            if listed >= _FEWEST_LISTED or sentence.rstrip().endswith(":"):
                yield Passage(match.start(), match.end(), names)


def _names_in(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))
