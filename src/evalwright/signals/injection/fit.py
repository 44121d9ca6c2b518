"""Whether a call does what an instruction says: the tool fits, and so does a value."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import product

import msgspec
import re2

from evalwright.signals.injection.instructions import JOINING, Instruction, stem
from evalwright.signals.injection.verbs import ANY_DEED, SYNONYMS, VERB_KINDS, kinds_of
from evalwright.signals.trace_view import Argument
from evalwright.signals.written_values import (
    Date,
    is_character,
    letters_of,
    plain_words,
    read_date,
    stands_in,
    written_forms,
)

_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOUNS_TOO = frozenset(
    b"email mail message text post order book review report request plan call state tag issue"
    b" share report copy note type access view fork star sms fax list".split()
)
_CARRIERS = frozenset((b"http", b"api", b"tool", b"url"))  # they name no thing
_RULE_BOOKS = frozenset(
    b"skill skills instructions runbook runbooks playbook playbooks procedure procedures handbook"
    b" guideline guidelines prompt prompts sop".split()
)
# In the name of a tool alone, these say what it does.
_NAME_DEEDS = {
    b"control": b"change",
    b"toggle": b"change",
    b"deletion": b"delete",
    b"removal": b"delete",
}
_LONGEST_NAMED = 200


class CalledTool(msgspec.Struct, frozen=True, gc=False):
    """What the name of a tool says: the kind of thing it does, and to what."""

    name: bytes
    kind: str
    kinds: frozenset[str]
    verb: bytes
    stems: frozenset[bytes]
    is_general: bool  # its verb may be said of anything
    verbs: frozenset[bytes]  # the beginnings of its verb and of those for the same deed

    @property
    def clues(self) -> frozenset[bytes]:
        """The beginnings of words, one of which tells what it does, or to what."""
        return self.stems | self.verbs


@lru_cache(maxsize=4096)
def read_tool(name: str) -> CalledTool:
    """The meaning of a tool's name; the first verb in it says what the tool does."""
    words = [_NAME_DEEDS.get(word, word) for word in words_of_name(name)]
    verbs = [word for word in words if word in VERB_KINDS]
    # Beside a clear verb, a word that may be a noun counts as one: `order.cancel`.
    verb = next((word for word in verbs if word not in _NOUNS_TOO), next(iter(verbs), b""))
    named = {stem(word) for word in words if word != verb or verb in _NOUNS_TOO}
    stems = frozenset(named - _CARRIERS)
    kinds = frozenset(kinds_of(verb))
    kind = VERB_KINDS.get(verb, "")
    called = plain_words(name[:_LONGEST_NAMED])
    if verb:
        alike = next((group for group in SYNONYMS if verb in group), (verb,))
        like = frozenset(map(stem, alike))
    else:
        like = frozenset()
    return CalledTool(called, kind, kinds, stem(verb), stems, verb in ANY_DEED, like)


def brings_rules(tool: str) -> bool:
    """Whether a tool is there to bring instructions in: those of a skill, a runbook, a handbook."""
    return not _RULE_BOOKS.isdisjoint(words_of_name(tool))


def words_of_name(name: str) -> list[bytes]:
    """The words of an identifier, however it joins them."""
    return plain_words(_CAMEL_CASE.sub(" ", name[:_LONGEST_NAMED]).replace(".", " ")).split()


_URL = re2.compile(r"(?i)(?:https?://|www\.)[^\s\"'<>)\]]+")
# Of short values, `re` is asked sooner.
_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.\w", re.ASCII)
_DIGIT = re.compile("[0-9]")  # which spares the search for an account in almost all values
_ACCOUNT = re.compile(r"\b[A-Z]{0,4}\d[\d -]{6,}\d\b", re.ASCII)
_VAGUE = frozenset(b"id name type value text body conte data query to".split())
_HOST = re2.compile(r"(?i)\bhttps?://(?:www\.)?([\w.-]+\.\w+)")
# A mail address, the name of a host, a handle, or a name in mixed case: none is a common word.
_NAMED_THING = re2.compile(
    r"[\w.+-]+@[\w-]+\.[\w.-]*\w|\b[\w-]+(?:\.[\w-]+)*\.[a-z]{2,6}\b|@\w{4,}"
    r"|\b[A-Z][a-z]{3,}[A-Z][a-zA-Z]{3,}\b"
)
_UNCOMMON = re.compile(r"\d|\w[_.@/-]\w", re.ASCII)
_MIXED_CASE = re.compile(r"[a-z]{2}[A-Z][a-zA-Z]{2}")
_FEWEST_STEMS = 3
_MOST_WORDS = 12
_MOST_COMMON_WORDS = 8
_FEWEST_TOLD = 8
_MOSTLY = 0.75
_CLUES = 2
_LITTLE = JOINING | frozenset(b"all any every each none other yes no true false".split())
_LONGEST_SEARCHED = 20_000


@lru_cache(maxsize=4096)
def _read_key(path: str) -> tuple[frozenset[bytes], frozenset[str]]:
    """What the name of an argument says about its value, a door, a plan; or what is done to it."""
    words = words_of_name(path)
    kinds = frozenset(kind for word in words for kind in kinds_of(word))
    return frozenset(map(stem, words)) - _VAGUE, kinds


class Value(msgspec.Struct, frozen=True, gc=False):
    """An argument ready to be looked for: `marks` are its forms and the addresses in it.

    Wherever it occurs, one of its `keys` does: words to look for first. `stems` are the words of a
    text or a command that an instruction may tell in other words.
    """

    argument: Argument
    marks: tuple[bytes, ...]
    keys: frozenset[bytes]
    date: Date | None
    is_telling: bool
    stems: tuple[bytes, ...]

    @property
    def words(self) -> bytes:
        """The value as plain words."""
        return plain_words(self.argument.value[:_LONGEST_SEARCHED])

    @property
    def clues(self) -> tuple[bytes, ...]:
        """The words that a text must contain to tell the value."""
        return self.stems[:_CLUES]

    @property
    def deeds(self) -> frozenset[bytes]:
        """The beginnings of the words in the value that tell what to do."""
        words = plain_words(self.argument.value[:_LONGEST_NAMED]).split()
        return frozenset(stem(word) for word in words if VERB_KINDS.get(word, "read") != "read")

    @property
    def key_stems(self) -> frozenset[bytes]:
        """The beginnings of the words in the argument's name."""
        return _read_key(self.argument.path)[0]

    @property
    def key_kinds(self) -> frozenset[str]:
        """The kinds of the verbs in the argument's name."""
        return _read_key(self.argument.path)[1]

    def stands_in(self, words: bytes) -> bool:
        """Whether a text contains the value or an address in it."""
        if stands_in(words, self.marks):
            return True
        return self.date is not None and self.date.stands_in(words)

    def is_reworded_in(self, stems: frozenset[bytes]) -> bool:
        """Whether the words of the value stand among those of a sentence: most of them, or all."""
        found = sum(word in stems for word in self.stems)
        if found == len(self.stems) or found < _MOSTLY * len(self.stems):
            return found == len(self.stems)
        return self.is_uncommon

    @property
    def is_uncommon(self) -> bool:
        """Whether not all its words are common ones."""
        return _is_uncommon(self.argument.value)

    def is_confined_to(self, passage: bytes, whole: bytes) -> bool:
        """Whether the value occurs in a passage and nowhere else in its text."""
        if not self.stands_in(passage):
            return False
        return sum(map(whole.count, self.marks)) == sum(map(passage.count, self.marks))


def look_for(argument: Argument, trusted: bytes) -> Value | None:
    """The value of an argument, if it may occur in untrusted text: whole, as a date, or in part."""
    forms = written_forms(argument.value)
    if not forms or forms[0].strip() in _LITTLE:
        return None
    found = argument.source is not None or argument.origin == "user"
    parts = _addresses(argument.value, within=not found) - set(forms)
    addresses = sorted(each for each in parts if trusted.find(each) < 0)
    date = read_date(argument.value)
    stems = () if found else _foreign_stems(argument.value, forms[0], trusted)
    if not (found or addresses or stems or date):
        return None
    marks = (*forms, *addresses)
    keys = {*stems[:_CLUES], *(max(mark.split(), key=len) for mark in marks)}
    if date is not None:
        keys.add(date.months[-1].strip())
    telling = bool(stems) or bool(addresses) or is_telling(argument.value)
    return Value(argument, marks, frozenset(keys), date, telling, stems)


def may_stand_in(words: bytes, value: str) -> bool:
    """Whether a value, what is named in it, or what it says in short may occur in a text."""
    return any(min(map(words.find, needed)) >= 0 for needed in _tellings(value))


def may_be_spelled(letters: bytes, value: str) -> bool:
    """Whether a value `may_stand_in` a text of which only the letters are known."""
    spelled = letters.find
    return any(min(map(spelled, map(letters_of, needed))) >= 0 for needed in _tellings(value))


def _tellings(value: str) -> Iterator[tuple[bytes, ...]]:
    forms = written_forms(value)
    if not forms or forms[0].strip() in _LITTLE:
        return
    for form in forms:
        yield (form,)
    stems = _foreign_stems(value, forms[0], b"")
    if stems:
        yield tuple([b" " + each for each in stems[:_CLUES]])
    for address in _addresses(value, within=True):
        yield (address,)
    date = read_date(value)
    if date is not None:
        yield from product(date.months, date.days)


def _addresses(value: str, *, within: bool) -> set[bytes]:
    """The addresses in a value, the hosts of links, and the names of things within a text."""
    start = value[:_LONGEST_SEARCHED]
    # Without a mark only a name in mixed case is one, which takes both cases.
    marked = "." in start or "@" in start or "://" in start
    if not marked and (start.islower() or start.isupper()):
        return set()
    found = {form for url in urls_in(start) for form in written_forms(url)}
    if "://" in start:
        found |= {plain_words(match.group(1)) for match in _HOST.finditer(start)}
    if within:
        found |= {plain_words(match.group()) for match in _NAMED_THING.finditer(start)}
    return {each for each in found if not each.isspace()}


def _foreign_stems(value: str, form: bytes, trusted: bytes) -> tuple[bytes, ...]:
    """The beginnings of the words of a short text that the user never said, the longest first."""
    words = form.split()
    if not _FEWEST_STEMS <= len(words) <= _MOST_WORDS:
        return ()
    if len(words) > _MOST_COMMON_WORDS and not _is_uncommon(value):
        return ()
    stems = {stem(word) for word in words if word not in _LITTLE and not is_character(word)}
    foreign = sum(trusted.find(b" " + each) < 0 for each in stems)
    if len(stems) < _FEWEST_STEMS or foreign * 2 <= len(stems):
        return ()
    return tuple(sorted(stems, key=lambda word: (-len(word), word)))


def _is_uncommon(value: str) -> bool:
    if value.replace(" ", "").isalpha():  # as are most texts, and it is seen much faster
        return False
    return _UNCOMMON.search(value) is not None


def is_telling(value: str) -> bool:
    """Whether a value is more than a lone word or a short number, which many a sentence holds."""
    return _is_telling(value[:_LONGEST_NAMED])


@lru_cache(maxsize=4096)
def _is_telling(value: str) -> bool:
    words = plain_words(value).split()
    if len(words) > 1 or any(len(word) > 3 and not word.isalpha() for word in words):
        return True
    return _MIXED_CASE.search(value) is not None


def urls_in(value: str) -> list[str]:
    """The web addresses in a value."""
    if "://" not in value and "www." not in value.lower():
        return []
    return [match.group() for match in _URL.finditer(value[:_LONGEST_SEARCHED])]


def is_destination(value: str) -> bool:
    """Whether a value says where something goes: an address or the number of an account."""
    start = value[:_LONGEST_NAMED]
    if urls_in(start) or ("@" in start and _MAIL.search(start)):
        return True
    return _DIGIT.search(start) is not None and _ACCOUNT.search(start) is not None


def is_told(argument: Argument) -> bool:
    """Whether a value is free text that the agent wrote: it retells what was read, or may."""
    return argument.source is None and _length(argument.value) >= _FEWEST_TOLD


def is_told_at_length(argument: Argument) -> bool:
    """Whether it is so long that it says little of what it holds."""
    return _length(argument.value) >= _MOST_WORDS


def _length(value: str) -> int:
    """About how many words a text has; in scripts without spaces, two characters are one."""
    spaces = value.count(" ")
    if spaces >= _MOST_WORDS or value.isascii():
        return spaces
    return spaces + sum(map("\u3000".__le__, value)) // 2


def knows_host(given: list[tuple[str, str]], value: str) -> bool:
    """Whether values that were given to a call have the host or the domain of an address."""
    host = _host_of(value)
    return bool(host) and any(host in each.lower() for _, each in given)


def is_at_home_in(text: str, value: str) -> bool:
    """Whether a text speaks of an address in more than one place, or of others of its domain."""
    return text[:_LONGEST_SEARCHED].lower().count(_host_of(value) or value.lower()) > 1


def _host_of(value: str) -> str:
    """The host of a link, or the domain of a mail address."""
    found = _HOST.search(value)
    if found is not None:
        return str(found.group(1)).lower()
    return value.partition("@")[2].lower()


def matching(
    tool: CalledTool, values: list[Value], instruction: Instruction, whole: bytes
) -> list[Argument]:
    """The arguments that the instruction names, provided that it also fits the tool."""
    hits = [value for value in values if _names(instruction, value, whole)]
    if tool.kind == "read":
        hits = [value for value in hits if urls_in(value.argument.value)]
    return [hit.argument for hit in hits] if hits and _fits(tool, hits, instruction) else []


def _names(instruction: Instruction, value: Value, whole: bytes) -> bool:
    if not instruction.may_hold(value.keys):
        return False
    if value.stands_in(instruction.sentence):
        return True
    if value.stems and value.is_reworded_in(instruction.stems):
        return True
    in_passage = value.is_telling and instruction.pressed
    return in_passage and value.is_confined_to(instruction.passage, whole)


def _fits(tool: CalledTool, hits: list[Value], instruction: Instruction) -> bool:
    if instruction.sentence.find(tool.name) >= 0:
        return True
    stems = instruction.stems
    same_kind = is_same_deed(tool, instruction) or any(
        not hit.key_kinds.isdisjoint(instruction.kinds) for hit in hits
    )
    same_thing = not tool.stems.isdisjoint(stems)
    if any(hit.is_telling for hit in hits):
        if len({hit.argument.value for hit in hits}) > 1:
            return True
        # A command, or the name of a button, may itself tell what is to be done.
        deeds = (hit.deeds & stems for hit in hits)
        unknown = not tool.kind or not instruction.kinds
        sent = any(is_destination(hit.argument.value) for hit in hits)
        return same_kind or same_thing or unknown or sent or any(deeds)
    if not same_thing:
        same_thing = any(not hit.key_stems.isdisjoint(stems) for hit in hits)
    # The very verb of the tool says as much as its kind and a thing.
    return same_kind and (same_thing or tool.verb in instruction.stems)


def is_same_deed(tool: CalledTool, instruction: Instruction) -> bool:
    """Whether a sentence tells to do what a tool does, or has a verb for what it makes or sets."""
    if not tool.kinds.isdisjoint(instruction.kinds):
        return True
    if tool.verb and tool.verb in instruction.stems:
        return True
    return not tool.stems.isdisjoint(instruction.verb_stems)


def calls_for(tool: CalledTool, instruction: Instruction) -> bool:
    """Whether an instruction tells what a tool does, and to what, and names no other tool."""
    if instruction.sentence.find(tool.name) >= 0:
        return True
    if instruction.names_an_identifier or not instruction.is_prose:
        return False
    same_verb = instruction.verb_stem in tool.verbs
    same_deed = not tool.kinds.isdisjoint(instruction.deeds) or same_verb
    if same_deed and not tool.stems.isdisjoint(instruction.stems):
        return True
    # "Buy the cheapest laptop" asks for `buy_product` or `purchase`, whatever the product.
    return same_deed and same_verb and not tool.is_general
