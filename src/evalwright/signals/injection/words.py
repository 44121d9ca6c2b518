"""The words that make a sentence an instruction, and those that press its reader to obey.

There is one table for each kind of word, by language; a pattern looks for those of all languages.
"""

import re

import re2

from evalwright.signals.injection.verbs import VERB_KINDS, VERBS
from evalwright.signals.word_tables import either

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
ASSAULT = _pattern(f"(?i){_either(_ASSAULTS)}")
# Instructions that the user had loaded speak of rules, too, and of what an assistant must do.
_HOUSE_RULES = {"en": f"{_RULES}|{_DUTY}|{_ANSWERING}"}
_TAKEOVER = f"{_either(_ASSAULTS)}|{_either(_REMINDERS)}"
TAKEOVER = _pattern(f"(?i){_TAKEOVER}")
_PRESSURE = f"(?i){_TAKEOVER}|{_either(_HOUSE_RULES)}"
PRESSURE = _pattern(_PRESSURE, 4 * _ROOM)
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
