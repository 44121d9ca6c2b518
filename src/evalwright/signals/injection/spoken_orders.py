"""Passages of untrusted text that tell a reader what to say: a machine, or in answers to users.

There is one table for each kind of word, by language.
"""

# ruff: noqa: E501, RUF001 (a table is read by its lines; letters of other scripts)

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice

import msgspec
import re2

from evalwright.signals.patterns import occurs_in, seldom_used, spans_in
from evalwright.signals.word_tables import either, word_tables

_ORDERS = re2.compile(
    rb"(?i)instru|anweis|vorgab|consign|istruz|instruktion|instrukc|pokyn|prompt|\brules?\b|\babove\b"
    rb"|profile|talimat|bisher|vorherig|\boben\b|anterior|voorgaand|hierboven|poprzedni|polece"
    rb"|ovanst|yukar|"
    + "précéd|önceki|předchoz|инструкц|указани|предыдущ|прежн|інструкц|вказівк|попередн"
    "|تعليم|السابق|指令|指示|以上|之前|上記|지시|이전|위의".encode()
)
# People are assistants, too, and have some: "Dr Hahn's assistant", "shop assistants", "assistant manager".
_SOMEBODYS = re2.compile(
    rb"['\x92\x99]s assistant|s' assistant|assistants?(?:['\x92]s|\xe2\x80\x99s) |assistant (?:of|to|manag|direc|profes|coach|princip)"
    rb"|\b(?:shop|stores?|sales|teaching|research|dental|medical|health|nursing|care|legal|office|executive|administrative"
    rb"|personal|production|lab|laboratory|kitchen|veterinary|flight|classroom|physician|my|her|his) assistant|assistent\w* (?:von|van) "
)
# Names of fields that speak for an agent.
_KEY_WORDS = r"(?:assistant|bot|llm|ai|model)[_-][a-z_-]{0,20}(?:override|instruct|directive|must|to_say)[a-z_-]*"

_AI_BESIDE_CHARACTERS = r"[\x80-\xbf]ai(?:[^a-z]|$)|(?:^|[^a-z0-9_])ai[\xe3-\xed]"
_LETTERS = r"[a-z\x80-\xff]*"
# Quotes and marks of other scripts, which are no letters.
_MARK = r"\xc2[\xa0-\xbf]|\xe2[\x80-\x81][\x80-\xbf]|\xe3\x80[\x80-\xbf]|\xef\xbc[\x80-\x8f]"
_BEFORE = rf"(?:^|[^a-z0-9_\x80-\xff]|{_MARK})"
_AFTER = rf"(?:$|[^a-z0-9_\x80-\xff]|{_MARK})"
_LONGEST = 100_000  # characters of a text: orders beyond are not looked for
_MOST_ANCHORS = 60
_MOST_VERBS = 12
_NEAR = 60
_FAR = 200
_LONGEST_PASSAGE = 600
# What makes an order of "assistants … report": nothing does where they merely do so.
_MOOD = re2.compile(
    rb"[^a-z0-9_ ]|\b(?:must|should|shall|will|to|please|always|never|now|kindly|do|needs?|ought)\b"
)
# Whoever is told to do something has no article: "l'assistant indique" tells what it does.
_ARTICLE = re.compile(
    rb"(?:\b[ld]['\x92]|\xe2\x80\x99|\b(?:le|la|el|il|lo|o|a|der|die|das|de|het|un|une|una|uma?"
    rb"|ein|eine)\s+)$"
)
_STOP = re.compile(
    r"[.!?؟।]+[\"'»”’)\]]*(?=\s|$)|[。！？][」』”]*|\n|(?<=[^\s\\])\"\s*[,}\]]|-->|</"
)
_STARTS = re.compile(r"[.!?؟।]+[\"'»”’)\]]*\s|[。！？]|\n|[\"]\s*:\s*\"|<!--|>")
_MARKS_BEFORE = re.compile(rf"^(?:[\x00-\x2f\x3a-\x60\x7b-\x7f]|{_MARK})+".encode())
_MARKS_AFTER = re.compile(rf"(?:[\x00-\x2f\x3a-\x60\x7b-\x7f]|{_MARK})+$".encode())


_TABLES = word_tables(__file__)
_ENGLISH = frozenset(word.encode() for word in _TABLES["saying"]["en"])


def _words(title: str) -> str:
    """A pattern for the words of a table; of bytes, so that letters of all scripts are told."""
    rows = dict(_TABLES[title])
    anywhere = rows.pop("unspaced")
    written = (
        re.escape(each).replace(r"\*", _LETTERS).replace(r"\ ", r"\s+").replace(r"\-", "-")
        for each in {word for words in rows.values() for word in words}
    )
    between = f"{_BEFORE}(?:{'|'.join(sorted(written, reverse=True))}){_AFTER}"
    return f"{between}|{either(anywhere)}"


def _pattern(*texts: str) -> "re2._Regexp[bytes]":
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = 32 << 20
    return re2.compile("|".join(texts).encode(), options)


_MACHINE = f"{_words('machines')}|{_AI_BESIDE_CHARACTERS}"
_USER, _ANSWER, _SUM, _OVERRIDE = map(_words, ("users", "answers", "summaries", "overrides"))
_NEWS = (
    r"\b(?:new|updated|real|actual) instructions?\b"
    r"|\binstructions? (?:have|has|are|were) (?:been )?(?:now )?(?:changed|updated|replaced)"
)
# People are told from when on a rule holds, too, but not that nothing else is to be said.
_FOR_GOOD = r"\bfrom now on\b|\bfor the rest of (?:this|the) (?:conversation|chat|session)\b"
_HENCEFORTH = _pattern(_FOR_GOOD)
_NOTHING_ELSE = _pattern(r"\b(?:only|nothing but|exclusively)\b")
_NEW_ORDERS = _pattern(_NEWS)
_ANCHOR = _pattern(_MACHINE, _USER, _ANSWER, _SUM, _OVERRIDE, _KEY_WORDS, _NEWS, _FOR_GOOD)
_KEY = _pattern(_KEY_WORDS)
MACHINE, REPLY = seldom_used(_pattern, _MACHINE), seldom_used(_pattern, _ANSWER)
_USER_WORDS, _GIVING = seldom_used(_pattern, _USER), seldom_used(_pattern, _ANSWER, _SUM)
OVERRIDE = seldom_used(_pattern, _OVERRIDE)
SAYS = seldom_used(_pattern, _words("saying"))


class SpokenOrder(msgspec.Struct, frozen=True):
    """A passage that may tell what to say, and how it does from its verb on.

    It is `sure` to be meant for a machine, or it may be a rule for people who answer users.
    """

    text: str
    order: str
    sure: bool


def spoken_orders(text: str) -> tuple[SpokenOrder, ...]:
    """The passages of a text that may tell its reader what to say."""
    raw = _in_lower_case(text[:_LONGEST])
    return orders_near(raw, _anchors(raw)) if occurs_in(_ANCHOR, raw) else ()


def may_tell_what_to_say(text: str) -> bool:
    """Whether there may be such a passage, which there is not in most texts."""
    return occurs_in(_ANCHOR, _in_lower_case(text))


def _in_lower_case(text: str) -> bytes:
    return text.lower().replace("\\n", " \n").encode("utf-8", "replace")


class OrderAnchor(msgspec.Struct, frozen=True):
    """A place beside which an order may stand, and how far before it and after it.

    It is `sure` to be for a machine; one that names a machine may tell what that does.
    """

    start: int
    end: int
    before: int
    after: int
    sure: bool = True
    names: bool = False


def orders_near(raw: bytes, anchors: Iterable[OrderAnchor]) -> tuple[SpokenOrder, ...]:
    """The passages with an anchor and a verb of saying so far before it, or after it."""
    found: dict[tuple[int, int, int], bool] = {}
    for each in islice(anchors, _MOST_ANCHORS):
        start, end = _bare(raw, each.start, each.end)
        later = _verbs(raw, end, end + each.after)
        earlier = reversed([*_verbs(raw, max(0, start - each.before), start)])
        for verb in chain(later, earlier) if each.sure else chain(earlier, later):
            if each.names and _merely_does(raw, start, end, *verb):
                continue
            place = _sentence_at(raw, *verb)
            # Machines, users and answers are spoken of in the same sentence.
            if (each.sure and not each.names) or (place[0] <= start and end <= place[2]):
                found[place] = found.get(place, False) or each.sure
                break
    for span in islice(spans_in(_KEY, raw), _MOST_ANCHORS):
        found[_sentence_at(raw, *span)] = True
    return tuple(
        SpokenOrder(
            raw[begin:end].decode("utf-8", "ignore"), raw[verb:end].decode("utf-8", "ignore"), sure
        )
        for (begin, verb, end), sure in found.items()
    )


def _verbs(raw: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    for span in islice(spans_in(SAYS, raw[start:end]), _MOST_VERBS):
        yield _bare(raw, start + span[0], start + span[1])


def _merely_does(raw: bytes, begin: int, end: int, start: int, stop: int) -> bool:
    """Whether a verb tells what somebody does: "models report", "l'assistant indique"."""
    if start < end:
        return False
    if raw[start:stop] in _ENGLISH:
        return not occurs_in(_MOOD, raw[end:start])
    is_subject = _ARTICLE.search(raw, max(0, begin - 6), begin) is not None
    return is_subject and not raw[end:start].strip()


def _bare(raw: bytes, start: int, end: int) -> tuple[int, int]:
    word = raw[start:end]
    bare = _MARKS_BEFORE.sub(b"", word)
    return end - len(bare), end - len(bare) + len(_MARKS_AFTER.sub(b"", bare))


def _anchors(raw: bytes) -> Iterator[OrderAnchor]:
    for start, end in spans_in(MACHINE, raw):
        if not occurs_in(_SOMEBODYS, raw[max(0, start - 16) : end + 8]):
            yield OrderAnchor(start, end, _NEAR, _FAR, names=True)
    for start, end in spans_in(OVERRIDE, raw):
        if occurs_in(_ORDERS, raw[start : end + 2 * _NEAR]):
            yield OrderAnchor(start, end, 0, _FAR)
    for start, end in spans_in(_NEW_ORDERS, raw):
        yield OrderAnchor(start, end, 0, _FAR)
    for start, end in spans_in(_HENCEFORTH, raw):
        if occurs_in(_NOTHING_ELSE, raw[end : end + _NEAR]):
            yield OrderAnchor(start, end, 0, _NEAR)
    for start, end in spans_in(_USER_WORDS, raw):
        yield OrderAnchor(start, end, _NEAR, _FAR, sure=False)
    for start, end in spans_in(_GIVING, raw):
        yield OrderAnchor(start, end, _NEAR, _NEAR, sure=False)


def _sentence_at(raw: bytes, start: int, end: int) -> tuple[int, int, int]:
    """Where the sentence around a verb begins, the verb, and its end.

    What it only announces belongs to it.
    """
    before = raw[max(0, start - _FAR) : start].decode("utf-8", "ignore")
    last_end = max((found.end() for found in _STARTS.finditer(before)), default=0)
    begin = start - len(before[last_end:].encode())
    rest = raw[end : end + _LONGEST_PASSAGE].decode("utf-8", "ignore")
    stop = _STOP.search(rest)
    at = stop.end() if stop else len(rest)
    if stop and rest[: stop.start()].rstrip().endswith((":", "：", "say", "reply")):
        following = _STOP.search(rest, at)
        at = following.end() if following else len(rest)
    return begin, start, end + len(rest[:at].encode())
