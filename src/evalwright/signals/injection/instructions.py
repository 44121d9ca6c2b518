"""Sentences in untrusted text that tell the reader to do something."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import TypeAlias

import re2

from evalwright.signals.injection.verbs import PARTICIPLE_KINDS, VERB_KINDS, VERBS, kinds_of
from evalwright.signals.patterns import first_in, occurs_in, seldom_used, spans_in
from evalwright.signals.word_tables import either
from evalwright.signals.written_values import (
    ANY_WORD,
    SearchedText,
    is_character,
    plain_bytes,
    searched,
)
from evalwright.trace.cached import cached

_VERBS = either(*VERBS.values())
_LEADS = (
    "and|then|also|finally|next|just|now|first|instead|do|to|so|will|you|you'd|you'll|can you"
    "|could you|would you"
)
# After these any verb makes an instruction, not only one that is known.
_URGES = r"please(?: kindly)?|kindly|you(?: \w+ly)? (?:must(?: now)?|should|shall|need to|have to)"
# These make one of a sentence whose subject is not the reader: "the door has to be unlocked".
_DUTIES = r"must|should|shall|ought to|needs? to|has to|have to|(?:is|are) to|needs|requires?"
# What an agent is bound by. Spelling varies where filters are to be evaded.
_ORDERS = r"(?:\w*structions?|prompts?|directives?|guidelines?|commands?|rules?|tasks?)"
_OVERRIDE = (
    r"(?:\b(?:ignore|disregard|override|bypass|overrule)|(?-i:Ignore|Disregard))\b"
    rf"[^.!?]{{0,30}}\b{_ORDERS}\b"
    r"|\b(?:ignore|disregard|forget) (?:everything|all) (?:\w+ )?(?:you|above|before|and|else)\b"
    r"|\bforget\b[^.!?]{0,20}\b(?:previous|prior|earlier|all)\b[^.!?]{0,12}"
    rf"\b{_ORDERS}\b"
)
# Mail and pages speak to their readers, but not of the tasks and instructions that these have.
_BINDING = r"(?:instructions?|directives?)"
_TASK = r"(?:tasks?|assignments?|objectives?)"
_RULES = (
    rf"\b(?:you|your|must|shall|should|please|kindly)\b[^.!?\n]{{0,60}}\b{_BINDING}\b"
    rf"|\b{_BINDING}\b[^.!?\n]{{0,40}}\byou\b|\b(?:new|updated|real|actual) {_BINDING}\b"
)
_REMINDER = (
    rf"\b(?:before|after|once|until|while|when)\b[^.!?\n]{{0,40}}\byour?\b[^.!?\n]{{0,40}}\b{_TASK}\b"
    r"|\b(?:your|the) (?:next|new|real|actual|original|initial|current|previous|main|only|true)"
    rf" (?:\w+ )?{_TASK}\b|\b{_TASK}(?: that)? (?:i|we|the user) (?:gave|give|assigned|set|asked)\b"
    rf"|\byour {_TASK} (?:has|have|is|are|was|were) (?:now )?"
    r"(?:changed|updated|cancell?ed|replaced)\b"
    rf"|\b(?:otherwise|else|or) your {_TASK} (?:fails?|will|cannot|can't)\b"
    rf"|\b(?:with|abandon|stop|pause|resume|continue|solve|forget) your (?:\w+ )?{_TASK}\b"
)
# Nor do they speak to machines, of users as somebody else, and of what these wanted before.
_MACHINE = (
    r"(?:ai(?: (?:agent|assistant|model|system)s?)?|llms?|(?:large )?language models?|chat ?bots?"
    r"|(?:virtual|automated|autonomous|digital) (?:agent|assistant)s?)"
)
_ADDRESS = (
    r"\b(?:hello|hi|hey|dear|attention|to|for|note|notice|by)[ ,:]+"
    rf"(?:(?:the|this|any|all|every|our|you) )*{_MACHINE}\b"
    r"|\b(?:hello|hi|hey|dear|attention|(?:note|notice|message|memo|reminder) (?:to|for))[ ,:]+"
    r"(?:the )?(?:assistant|agent|bot)s?\b|\bnote_?(?:to|for)_?(?:the_?)?(?:agent|assistant|ai)\b"
    r"|\b(?:to|for) (?:the|this|any|every) (?:assistant|agent|bot)s? ?:"
    r"|\b(?:automated|autonomous) (?:callers?|readers?|clients?)\b"
    rf"|(?:^|[.!?>\n]) ?(?:assistant|{_MACHINE}), (?:please |now |first )?"
    rf"(?:{_VERBS}|ignore|disregard|forget)\b"
    r"|(?:^|[.!?>\n(\[#/*-]) ?(?:llms?|language models?|ai (?:agent|assistant|model)s?) ?:"
    rf" ?(?:please |now |first )?(?:{_VERBS})\b"
)
_DUTY = rf"\b(?:assistants?|{_MACHINE})\b[^.!?\n]{{0,40}}\b(?:must|shall|ha(?:s|ve) to|needs? to)\b"
_RESUMPTION = (
    r"\b(?:continue|resume|proceed|go on|carry on|return)\b[^.!?\n]{0,24}"
    r"\b(?:original|initial|previous) (?:task|job|request|question|query|work|assignment)\b"
    r"|\b(?:what|that|which) the user (?:asked|wanted|wants|requested)\b"
    r"|\bthe user (?:\w+ )?(?:asked|asks|expects|needs|requested|wanted|wants) you to\b"
    r"|\b(?:before|overrid(?:es?|ing)|instead of|supersedes?|replaces?|ignore|disregard) the"
    r" user'?s"
    r" (?:\w+ )?(?:request|task|question|query|instructions?)\b"
    r"|\b(?:request|task|job)s?\b[^.!?\n]{0,60}\b(?:withdrawn|replaced|superseded)\b"
    r"|\byou must\b[^.!?\n]{0,60}\bbefore (?:you )?answer(?:ing)?\b"
    r"|\bbefore you answer\b[^.!?\n]{0,12}\byou must\b"
)
_ANSWERING = (
    r"\b(?:tell|inform|notify|ask|alert|mention)\w* [^.!?\n]{0,16}\bthe user\b"
    r"|\bin your (?:final )?(?:answer|reply|response|summary|output)\b"
)
_CASTING = (
    r"\byou are(?: now)? an? (?:\w+ )?(?:ai|assistant|language model|llm|agent|chatbot)\b"
    r"|\bas an? (?:ai|language model|llm|chatbot)\b|\byou are now in \w+ mode\b"
    r"|\bfrom now on,? (?:you (?:are|must|will|only)|act|answer|respond|ignore)\b"
    r"|\bdo anything now\b|\b(?:god|unrestricted) mode\b"
)
_PROMPT = (
    r"\b(?:reveal|show|print|repeat|output|leak)\b[^.!?]{0,20}"
    r"\b(?:your|system|initial|original) (?:\w+ )?(?:prompt|instructions)\b"
    rf"|[\[<{{(#] ?/?(?:assistant|agent|bot|model|{_MACHINE})[ _-]{_ORDERS} ?[\]>}})#:]"
    r"|<\|? ?/?(?:system|im_start|inst) ?\|?>|\[/?inst\]|#{2,} ?(?:new )?instruction ?:"
)


def _either(table: dict[str, str]) -> str:
    return "|".join(table.values())


_ROOM = 8 << 20


def _pattern(text: str, room: int = _ROOM) -> "re2._Regexp[bytes]":
    options = re2.Options()
    options.max_mem = room
    return re2.compile(text.replace(" ?", r"\s*").replace(" ", r"\s+").encode(), options)


# A verb that is not known is taken for one where something follows for it to act on.
_DETERMINERS = "the|all|any|every|each|this|these|those|my|our|your|his|her|their|its|an|a"
_ACTED_ON = frozenset(_DETERMINERS.encode().split(b"|"))
_UNKNOWN = rf"[a-z]{{4,}}(?: (?:up|out|off|down|in|on|over))? (?:{_DETERMINERS})"
_DIRECTIVES = {
    "en": rf"(?:^|[.!?:;,>)\]}}\"'`*\n|-]|\b(?:{_LEADS})\b)"
    rf"(?:[\s\"'`*(]|(?:#|//)\s)*\b(?:{_VERBS})\b"
    rf"|(?:^|[.!?:;>\]}}\"\n-]|\b(?:now|first|to|then)\b)[\s\"'`*(]*\b{_UNKNOWN}\b"
    rf"|\b(?:{_URGES})\s+[a-z]+|\b(?:{_DUTIES})\s+[a-z]+",
}
DIRECTIVE = _pattern(f"(?i){_either(_DIRECTIVES)}")
# Only agents are told to drop their orders or their role; people are told of tasks, too.
_ASSAULTS = {"en": f"{_OVERRIDE}|{_CASTING}|{_PROMPT}"}
_REMINDERS = {
    "en": f"{_REMINDER}|{_ADDRESS}|{_RESUMPTION}",
    # As the orders of other languages read in English words.
    "glossed": r"\byour task\b[^.!?\n]{0,14},|\btask ?, ?you must\b"
    r"|\btask\b[^.!?\n]{0,80}\bplease kindly\b",
}
ASSAULT = seldom_used(_pattern, f"(?i){_either(_ASSAULTS)}")
# Instructions that the user had loaded speak of rules, too, and of what an assistant must do.
_HOUSE_RULES = {"en": f"{_RULES}|{_DUTY}|{_ANSWERING}"}
_TAKEOVER = f"{_either(_ASSAULTS)}|{_either(_REMINDERS)}"
TAKEOVER = seldom_used(_pattern, f"(?i){_TAKEOVER}")
_PRESSURE = f"(?i){_TAKEOVER}|{_either(_HOUSE_RULES)}"
PRESSURE = seldom_used(_pattern, _PRESSURE, 4 * _ROOM)
# Matches wherever that does, and seldom elsewhere: what need not count how far words are apart
# keeps a small table, whatever the text.
MAY_PRESS = _pattern(re.sub(r"\{0,\d+\}", "*", _PRESSURE))
# A sentence also ends where a quoted value, a paragraph, an item or a field of a listing does.
SENTENCE_END = _pattern(
    r"[.!?][\"')\]]*\s+[\"'<(]*[A-Z0-9<]|\n\s*\n|</|--|[\"']\s*[,}\]]|[\"']\n|\n\s*(?:-\s)?\w+:\s"
    r"|[^:\s]\s*\n\s*(?:[-*]|\d{1,2}[.)])\s"
)
# Where what was said within one field of a record ends: the next field, or the end of its text.
FIELD = _pattern(
    r"\n\s*(?:-\s)?[a-z_]+:\s|[\"'][\s}\]]*,[\s{\[]*[\"'][^\"'\n]{1,80}[\"']\s*:|[\"']\s*\}"
)
# The next text of a list in JSON: what was escaped within a text has a space before its mark.
ELEMENT = _pattern(r"[^\s\"]\"\s*[,\]]\s*(?:[\"\]},]|$)")
HEADING = _pattern(r"\n\s*[A-Z][A-Za-z]*(?: [A-Za-z]+){0,2}:\s")
ITEM = _pattern(r"\n\s*(?:[-*]|\d{1,2}[.)])\s")
# The user delegates: the content says what to do.
_HANDED_OVER = (
    r"actions?|tasks?|instructions?|to-?dos?|steps?|requests?|asks?|says?|told|items?|directions?"
    r"|checklist|list|recommendations?|suggestions?|orders|procedure|run-?book|play-?book|guides?"
    r"|guidelines?|routines?|polic(?:y|ies)|comments?|feedback|notes?|manual|readme|plan|recipe"
    r"|skills?|hand-?book|protocol|sop|scene|template|prompt|letter|agents\.md|claude\.md"
)
_DEEDS = "|".join(verb.decode() for verb, kind in VERB_KINDS.items() if kind not in ("read", "say"))
_ENTRUSTING = {
    "en": r"(?:^|[.!?:;,\n]|\b(?:and|then|also|please|to|you|just|now)\b) ?"
    r"(?:(?:do|follow|perform|execute|complete|carry out|implement|finish|address|process|use|using"
    r"|load|activate|apply|run|invoke"
    rf")\b[^.?!]{{0,40}}\b(?:{_HANDED_OVER})\b"
    r"|(?:handle|take care of|deal with|work through|act on|sort out|triage|apply)\b)"
    r"|\b(?:asks|asked|requested|wants|wanted)\b"
    r"|\b(?:routine|check-?list|run-?book|play-?book|to-?do list|procedure)\b"
    rf"|\bset up\b|\b(?:{_DEEDS}) "
    r"(?:what|whatever|whoever|everything|anything|everyone|everybody)\b"
    r"|\b(?:following|according to) (?:the|its|our|my|his|her|their|this|that)\b"
    r"|\bas (?:\w+ ){0,3}(?:described|explained|stated|requested|asks?|asked|says?|said|wants?"
    r"|written|recommends?|recommended|instructed|needed|required|tells?|lists?|wrote)\b",
}
ENTRUSTS = _pattern(f"(?i){_either(_ENTRUSTING)}")
# What is to be done may also be told by the way: "book what the doctor recommends".
_TELLINGS = {
    "en": r"\b(?:what|whatever|that|which|as)\b[^.?!]{0,40}\b(?:recommends?|suggests?|advises?"
    r"|describes?|specif(?:y|ies)|says?|wrote|writes?|requires?|proposes?|tells?|is needed"
    r"|prescribes?)\b",
}
TELLS = _pattern(f"(?i){_either(_TELLINGS)}")
_OWN_LISTS = {"en": r"\b(?:following|these|below)\b"}
OWN_LIST = _pattern(f"(?i){_either(_OWN_LISTS)}")
# The user points at content that holds the particulars.
_REFERENCES = {
    "en": r"\b(?:based on|according(?:ly)?|specified|mentioned|listed|described)\b",
}
REFERS = _pattern(
    rf"(?i){_either(_REFERENCES)}|\.(?:txt|docx?|pdf|md|xlsx?|csv|html?)\b|https?://|www\."
)
_TOOL_USES = {"en": r"\b(?:use|using|call|calling|invoke|invoking|run|running|with|via)\b"}
_TOOL_ORDERS = {"en": r"\b(?:use|call|invoke|run|execute)\b"}
# What the user wants to be told is nothing that is done.
_FOR_THE_USER = {"en": r"\b(?:give|send|get|bring|let|write|make) (?:me|us)\b"}
FOR_THE_USER = _pattern(f"(?i){_either(_FOR_THE_USER)}")
TOOL_USE = _pattern(f"(?i){_either(_TOOL_USES)}")
TOOL_ORDER = _pattern(rf"(?i)(?:{_either(_TOOL_ORDERS)})[^.!?\n]*$")
IDENTIFIER = _pattern(r"\b(?:[A-Za-z]+_\w+|[A-Z]?[a-z]+[A-Z]\w+)\b")
_JOINING = {
    "en": "a an the of to in on at for and or is are be by with from it its this that my your our",
    "de": "der die das den dem des und von für auf mit zu im ein eine",
    "es": "el la los las del de y en un una con",
    "fr": "le les du des et un une dans au aux",
    "ru": "и в на по из от",
}
OWN_VALUE = _pattern(r"""\w[@/]\w|\b\d|\s["'`][^"'`\n]{2,80}["'`](?:[\s.,;:!?)]|$)""")
JOINING = frozenset(_either(_JOINING).replace("|", " ").encode().split())
# First words of sentences that are not instructions.
_NO_DEEDS = {
    "en": "a about after again also am an and any are as at be been before but by can could dear"
    " did do does during each for from given good had has have he hello her here hey hi his how i"
    " if in is it its me might my next no not note of ok okay on once one or our please she since"
    " so some sorry sure thank thanks that the their them then there these they this those to"
    " today tomorrow until was we were what when where which while who whose why will with would"
    " yes yesterday you your",
}
_NO_DEED = frozenset(_either(_NO_DEEDS).replace("|", " ").encode().split())
_SPACE = r"\t\n\f\r\x20"  # of which `re` and `re2` take different views
_FIRST_WORD = (
    rf"[{_SPACE}\"'(*-]*(?:\d+[.)][{_SPACE}]*)?"
    rf"(?:(?:please|then|and|also|now|next)[{_SPACE}]+)*([a-z]+)"
)
SENTENCE_START = _pattern(rf"(?i)(?:^|[.!?;]\s|\n){_FIRST_WORD}")
ASKED = _pattern(r"[^.!?;\n]+\?(?:\s|$)")  # an unknown word tells no deed there
FIRST_SENTENCE_START = re.compile(_FIRST_WORD.encode(), re.IGNORECASE)  # to match, not to search


def is_no_order(match: bytes) -> bool:
    """Whether a word in the place of an unknown verb is not a verb."""
    words = match.lower().translate(None, b"\"'`*(.!?:;,>)]}|-").split()
    if words[-1:] == [] or words[-1] not in _ACTED_ON or not VERB_KINDS.keys().isdisjoint(words):
        return False
    found = [word for word in words[-3:] if word not in _NO_DEED]
    return not found or found[0].endswith((b"ed", b"ing", b"ly", b"ness", b"tion"))


def is_unknown_deed(word: bytes) -> bool:
    """Whether a word that opens a sentence may be a verb of which nothing is known."""
    return word not in VERB_KINDS and word not in _NO_DEED


# Lengths in bytes. A sentence longer than this is a listing; an order follows its pressure closely.
_LONGEST_SENTENCE = 600
_LONGEST_PASSAGE = 900
_REACH_BEFORE = 400
_REACH_AFTER = 80
_LONGEST_SUBJECT = 200
_LONGEST_READ_WHOLE = 20_000
_SHORT_TEXT = 4_000
_MOST_PLACES = 1_000
_APART = "\n.?!\n"  # no instruction reaches across, nor any pressure
_STEM = 5
_ESCAPE = ord("\\")
_SHORT_WORD = 3
_LONGEST_VERB = 16
_SHORT_SENTENCE = 8
REPEATED = 4
_FIELD_ENDS = (b'":', b"':")
_GLUE = (b".", b"@", b"_", b"/", b"-")  # within an address or a name
MARKS = b"\"'`*(.!?:;,>)]}|-"
_ACTS = frozenset(VERB_KINDS.values()) - {"say", "read"}
Span: TypeAlias = tuple[int, int]
_BOUNDS = (b". ", b"! ", b"? ", b"\n", b'"', b"',", b"':", b"<", b">", b"{", b"}")


class Instruction:
    """One sentence that gives an instruction, and the place of the pressure on its reader."""

    def __init__(self, text: "InstructionReader", start: int, verb_end: int) -> None:
        self._text = text
        self._raw = text.raw
        self._start = start
        self._verb_end = verb_end

    @cached
    def _pressure(self) -> int | None:
        """The first place near enough that speaks to the same reader: in the same field or item."""
        pressure = self._text.pressure
        nearest = bisect_left(pressure, self._start - _REACH_BEFORE)
        for place in pressure[nearest:]:
            if place >= self._start or self._text.reach(place) > self._start:
                return place
        return None

    @cached
    def pressed(self) -> bool:
        """Whether words near it speak to an agent about its orders or its task."""
        after = self._pressure - self._start if self._pressure is not None else _LONGEST_PASSAGE
        if not 0 < after < _LONGEST_SENTENCE + _REACH_AFTER:
            return after <= 0
        return self._start + after <= self._end + _REACH_AFTER

    @property
    def _verb(self) -> bytes:
        return self._text.verb(self._start, self._verb_end)

    @property
    def verb_stem(self) -> bytes:
        """The beginning of that verb."""
        return stem(self._verb)

    @property
    def deeds(self) -> frozenset[str]:
        """The kinds of what it tells to do: of its verb, or in the passive, of what is to be."""
        known = kinds_of(self._verb)
        told = [known] if known else [(PARTICIPLE_KINDS.get(word, ""),) for word in self.words]
        return frozenset(kind for kinds in told for kind in kinds)

    def is_near(self, places: list[int]) -> bool:
        """Whether the first of the places after its subject lies in its sentence or passage."""
        first = bisect_left(places, self._start - _LONGEST_SUBJECT)
        return places[first] < self._verb_end or places[first] < self._end or self.pressed

    def may_hold(self, keys: Iterable[bytes]) -> bool:
        """Whether a word is near enough for the sentence or the passage to contain it."""
        find, first, last = self._text.lower.find, self._opening, self._start + _LONGEST_PASSAGE
        for key in keys:  # noqa: SIM110  (asked very often)
            if find(key, first, last) >= 0:
                return True
        return False

    @cached
    def _opening(self) -> int:
        head = self._raw[self._start : self._start + 1]
        if not head.isalpha() and head != b",":
            return self._start
        first = max(0, self._start - _LONGEST_SUBJECT)
        before = self._raw[first : self._start]
        return first + max(map(before.rfind, _BOUNDS)) + 1

    @cached
    def _end(self) -> int:
        rest = self._raw[self._verb_end : self._verb_end + _LONGEST_SENTENCE]
        found = first_in(SENTENCE_END, rest)
        return self._verb_end + (found[0] + 1 if found else len(rest))

    @cached
    def sentence(self) -> bytes:
        """The sentence as plain words."""
        return plain_bytes(self._raw[self._opening : self._end])

    @property
    def is_prose(self) -> bool:
        """Whether it reads as a sentence: a long one has words that only join others."""
        words = self.sentence.split()
        if len(words) <= _SHORT_SENTENCE or not JOINING.isdisjoint(words):
            return True
        return sum(not is_character(word) for word in words) <= _SHORT_SENTENCE

    @property
    def order(self) -> bytes:
        """The sentence from its verb on, as plain words; after a semicolon comes another."""
        return plain_bytes(self._raw[self._start : self._end].partition(b";")[0])

    @cached
    def _head(self) -> bytes:
        """The verb and the words that follow it closely, which others have who repeat the order."""
        matched = self._raw[self._start : self._verb_end]
        verb = self._verb_end - len(matched.split()[-1].lstrip(MARKS))
        words = plain_bytes(self._raw[verb : self._end]).split()
        return b" %b " % b" ".join(words[:REPEATED]) if len(words) >= REPEATED else b""

    def is_repeated_in(self, words: bytes) -> bool:
        """Whether plain words hold the order itself, as a record does that has it in its name."""
        return bool(self._head) and words.find(self._head) >= 0

    @property
    def names_an_identifier(self) -> bool:
        """Whether the sentence holds a name such as programs give: `read_mail`, ReadMail."""
        return occurs_in(IDENTIFIER, self._raw[self._opening : self._end])

    @property
    def names_a_value(self) -> bool:
        """Whether it says which one: by a number, an address, or a name in quotes."""
        return occurs_in(OWN_VALUE, self._raw[self._verb_end : self._end])

    @cached
    def passage(self) -> bytes:
        """The text under pressure from the sentence on, as plain words."""
        if self._pressure is None or self._pressure > self._start:
            return b""
        end = min(self._text.reach(self._pressure), self._start + _LONGEST_PASSAGE)
        return plain_bytes(self._raw[self._start : end])

    @cached
    def words(self) -> frozenset[bytes]:
        """The words of the sentence."""
        return frozenset(self.sentence.split())

    @cached
    def stems(self) -> frozenset[bytes]:
        """The beginnings of its words."""
        return stems_of(self.words)

    @property
    def verb_stems(self) -> frozenset[bytes]:
        """The beginnings of those of its words that are verbs."""
        return frozenset(stem(word) for word in self.words if word in VERB_KINDS)

    @cached
    def kinds(self) -> frozenset[str]:
        """The kinds of the verbs in the sentence."""
        return frozenset(kind for word in self.words for kind in kinds_of(word))


class InstructionReader:
    """An untrusted text under search; of a long one, only what lies near the point is read."""

    def __init__(self, text: str, *, may_press: bool = True) -> None:
        self.raw = unescaped(text)  # line breaks that JSON or YAML escaped are line breaks
        self._may_press = may_press
        self._found: dict[bytes, list[int]] = {}
        self._made: dict[Span, Instruction] = {}

    @cached
    def pressure(self) -> list[int]:
        """The places that speak to an agent about its orders or its task, in order."""
        if not self._may_press:
            return []
        return [start for start, _ in spans_in(PRESSURE, self.raw)]

    @cached
    def asks_to_act(self) -> bool:
        """Whether a pressing instruction tells to do something."""
        return next(self._pressed(*_ACTS), None) is not None

    @cached
    def is_assault(self) -> bool:
        """Whether it speaks against the orders or the role of an agent."""
        return occurs_in(ASSAULT, self.raw)

    @cached
    def takes_over(self) -> bool:
        """Whether it speaks to an agent of its task or against its orders, not of rules alone."""
        return occurs_in(TAKEOVER, self.raw)

    @cached
    def presses(self) -> bool:
        """Whether it presses the reader to obey any instruction."""
        return next(self._pressed(), None) is not None

    @cached
    def pressed(self) -> list[Instruction]:
        """The instructions that the reader is pressed to obey, in order."""
        return list(self._pressed())

    def _pressed(self, *kinds: str) -> Iterator[Instruction]:
        for span in self._near_pressure:
            if not kinds or VERB_KINDS.get(self.verb(*span), "") in kinds:
                each = self._make(span)
                if each.pressed:
                    yield each

    @cached
    def _near_pressure(self) -> list[Span]:
        pressure, reach = self.pressure, _LONGEST_SENTENCE + _REACH_AFTER
        if not pressure:
            return []
        # A longer text is not read as a whole for this alone.
        near: Iterable[Span] | None = self._whole if len(self.raw) <= _SHORT_TEXT else None
        if near is None:
            near = self._near(pressure[:_MOST_PLACES], reach, _REACH_BEFORE)
        return list(_beside(pressure, near, _REACH_BEFORE, reach))

    def holding(self, words: Iterable[bytes]) -> Iterable[Instruction]:
        """The instructions whose sentences may hold one of the words, in order."""
        spans = self._whole
        if spans is not None and not spans:
            return ()
        places = sorted({place for word in words for place in self._places(word)})
        if not places:
            return ()
        near = self._near(places, _LONGEST_SENTENCE, _LONGEST_SUBJECT) if spans is None else spans
        beside = _beside(places, near, _LONGEST_SUBJECT, _LONGEST_PASSAGE)
        return (each for each in map(self._make, beside) if each.is_near(places))

    def _make(self, span: Span) -> Instruction:
        made = self._made.get(span)
        if made is None:
            made = Instruction(self, *span)
            if len(self._made) < _MOST_PLACES:
                self._made[span] = made
        return made

    @cached
    def _whole(self) -> list[Span] | None:
        """Where there are instructions in a text that is not too long to be read as a whole."""
        length = len(self.raw)
        return None if length > _LONGEST_READ_WHOLE else list(self._near([0], 0, length))

    def _places(self, word: bytes) -> list[int]:
        known = self._found.get(word)
        if known is None:
            known = list(islice(self._occurrences(word), _MOST_PLACES))
            if len(self._found) < _MOST_PLACES:
                self._found[word] = known
        return known

    def _occurrences(self, word: bytes) -> Iterator[int]:
        find, text = self._lower.find, self.lower
        place = find(word)
        while place >= 0:
            # A short word is part of many longer ones.
            if len(word) > _SHORT_WORD or not text[place - 1 : place].isalnum():
                yield place
            place = find(word, place + len(word))

    @cached
    def _lower(self) -> bytes | SearchedText:
        return searched(self.lower, ANY_WORD)

    def _near(self, places: list[int], before: int, after: int) -> Iterator[Span]:
        for begin, end in _merged(places, before, after):
            for span in spans_in(DIRECTIVE, self.raw, begin, end):
                if _is_order(self.raw, *span):
                    yield span

    @cached
    def lower(self) -> bytes:
        """The bytes in lower case, each in its place."""
        return self.raw.lower()

    def reach(self, place: int) -> int:
        """How far the pressure at a place reaches: to the next field or item beside its own."""
        known = self._reaches.get(place)
        if known is None:
            rest = self.raw[place : place + _LONGEST_PASSAGE + _REACH_BEFORE]
            ends = [first_in(FIELD, rest)]
            if self._is_record:
                ends.append(first_in(ELEMENT, rest))
            heading = first_in(HEADING, rest)
            if heading is not None and not rest[: heading[0]].rstrip().endswith(b":"):
                ends.append(heading)
            before = self.raw[max(0, place - _REACH_BEFORE) : place].rpartition(b"\n\n")[2]
            if occurs_in(ITEM, b"\n" + before):
                ends.append(first_in(ITEM, rest))
            self._reaches[place] = known = place + min(
                (end[0] + 1 for end in ends if end is not None), default=len(rest)
            )
        return known

    @cached
    def _reaches(self) -> dict[int, int]:
        return {}

    @cached
    def _is_record(self) -> bool:
        return self.raw.lstrip()[:1] in (b"{", b"[")

    def verb(self, start: int, end: int) -> bytes:
        """The verb with which an instruction opens that was found between two places."""
        return self.lower[max(start, end - _LONGEST_VERB) : end].split()[-1].strip(MARKS)


def _is_order(raw: bytes, start: int, verb_end: int) -> bool:
    """Whether it is not the name of a field, nor a statement that only looks like an order."""
    after = raw[verb_end : verb_end + 2]
    if after in _FIELD_ENDS or (after[:1] in _GLUE and after[1:].isalnum()):
        return False
    return not is_no_order(raw[start:verb_end])


def _beside(places: list[int], spans: Iterable[Span], before: int, after: int) -> Iterator[Span]:
    for span in spans:
        first = bisect_left(places, span[0] - before)
        if first < len(places) and places[first] < span[0] + after:
            yield span


def _merged(places: list[int], before: int, after: int) -> Iterator[tuple[int, int]]:
    begin = end = 0
    for place in places:
        if place - before > end:
            if end > begin:
                yield begin, end
            begin = place - before
        end = place + after
    if end > begin:
        yield begin, end


def as_one(texts: Iterable[str]) -> str:
    """Texts to be looked through at once, which is faster than one by one."""
    return _APART.join(texts)


def read_as_one(texts: Iterable[str]) -> bytes:
    """The same in UTF-8, as instructions are looked for in it."""
    return unescaped(as_one(texts))


def unescaped(text: str) -> bytes:
    """A text in UTF-8, with the line breaks that JSON or YAML escaped."""
    raw = text.encode("utf-8", "replace")
    return raw.replace(b"\\n", b" \n").replace(b"\\", b" ") if _ESCAPE in raw else raw


def holding_instructions(together: bytes, texts: Sequence[str]) -> list[int]:
    """The places of the texts, read as one, that hold anything like an instruction."""
    span = _first_order(together, 0)
    if span is None:
        return []
    lengths = list(map(len, texts))
    if sum(lengths) + len(_APART) * (len(texts) - 1) != len(together):  # not all is ASCII
        lengths = [len(unescaped(text)) for text in texts]
    ends = list(accumulate([length + len(_APART) for length in lengths]))
    found: list[int] = []
    while span is not None:
        # It may begin between two texts, but never ends there.
        found.append(bisect_right(ends, span[1] - 1))
        span = _first_order(together, ends[found[-1]] - len(_APART))
    return found


def _first_order(raw: bytes, start: int) -> Span | None:
    for span in spans_in(DIRECTIVE, raw, start):
        # Most of what is none is the name of a field, which is told sooner.
        if raw[span[1] : span[1] + 2] not in _FIELD_ENDS and _is_order(raw, *span):
            return span
    return None


def stem(word: bytes) -> bytes:
    """The beginning of a word."""
    return word.removesuffix(b"s")[:_STEM]


def stems_of(words: frozenset[bytes]) -> frozenset[bytes]:
    """The beginnings of words, so that a reservation meets what reserves, and repo a repository."""
    return frozenset(map(stem, words)) | frozenset(word[: _STEM - 1] for word in words)
