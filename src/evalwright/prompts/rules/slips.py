"""Slips: what was left in a prompt by accident, or keeps it from working as it is written."""

import re
from collections.abc import Iterator
from itertools import chain

from evalwright.prompts.findings import ANSWERED, Hit, rule
from evalwright.prompts.rules.prompt_text import Reading, cited
from evalwright.signals.patterns import BytesPattern, quick_pattern, when_used
from evalwright.signals.word_tables import either, word_tables

_OPENING = r"^[ \t>*+\-\d.)]*+(?:\[[ x]?\][ \t]*+)?(?:\*\*|__)?[^\w\s`\"'|#{]{0,3}[ \t]*+"

_TABLES = word_tables(__file__)
_ORDERS, _TO_BE_WRITTEN, _LABELS_OF_NOTES = map(either, _TABLES["notes"].values())
# Where a line is a note of its author to himself, and not a rule about such notes.
_NOTE = when_used(
    rf"{_OPENING}\[?(?P<note>TODO|FIXME|TBD)\]?"
    r"(?:[ \t]*(?:[:：\-–—(]|$))"
    # In the middle of a line: after a sentence, in brackets or a comment, or as what is not known.
    r"|(?:[.!?。][ \t]+|\(|<!--[ \t]*)(?P<inner>(?-i:TODO|TBD)\b[ \t]*[:：])"
    r"|(?P<open>\((?-i:TODO|TBD)\)|\((?-i:FIXME)[: \t]+[a-z][^()\n]{3,60}\)"
    r"|(?-i:[^\W\d]\b is TBD\.))"
    rf"|{_OPENING}\(?(?P<whole>to be (?:added|written|defined|completed|determined))[)_*.… \t]*$"
    rf"|{_OPENING}(?P<capitals>(?-i:{_LABELS_OF_NOTES}))[ \t]*[:：]"
    rf"|{_OPENING}(?P<order>(?-i:TODO)[ \t]+(?-i:(?:{_ORDERS})\b)"
    r"|(?-i:XXX)[ \t:]+(?-i:this|check|fix|needs?|rewrite|update)\b)"
    # A label that has nothing yet.
    r"|(?:^|(?<=\n))\*{0,2}[^\W\d_][^\n:：|]{1,40}[:：][*_]{0,2}[ \t]*"
    rf"(?P<value>(?-i:TBD|TBA|TODO)|(?:{_TO_BE_WRITTEN})(?: (?:später|plus tard|más tarde"
    r"|позже|позднее))?)[ \t.。]*$"
    rf"|(?P<elsewhere>[\[(（【［](?:{_TO_BE_WRITTEN})[\])）】］])(?!\()"
    rf"|(?:{_OPENING}|[.!?][ \t]+)(?P<fixme>FIXME)\b"
    r"|(?P<lorem>\b[Ll]orem ipsum(?: dolor\b|[ \t]*$))"
    r"|(?P<bracket>\[[^\]\n`]{0,60}\bto be (?:added|written|defined|completed|determined)\b"
    r"[^\]\n`]{0,40}\]|\[(?:TBD|TODO)\b[^\]\n]{0,40}\])(?!\()"
    rf"|{_OPENING}(?P<progress>[Ww]ork in progress|WORK IN PROGRESS)\b"
    r"|\b(?:prompt|page|section|document|file|guide|template|content)\b[^\n.]{0,30}"
    r"\b(?P<development>currently under development)\b"
    r"|(?P<number>\[(?:Use case|Tip) 1\])",
    re.IGNORECASE | re.MULTILINE,
)
_ABOUT_NOTES = when_used(
    r"(?i)\b(?:todo|hack|xxx|comments?|notes?|marks?|markers?|tags?|search|find|grep)\b|[\"'“`]"
)
_CODE_SPAN = when_used(r"`[^`\n]*`")
_IN_CODE = when_used(r"[#/{(*:][ \t]*FIXME\b")  # a comment, or a blank to fill in
_LISTED = when_used(r"[ \t>]*(?:[-*+•]|\d+[.)])[^\n]*?[Ll]orem ipsum[ \t.]*(?:\n|$)")
# How an answer is to say that something is not known.
_ABOUT_UNKNOWN = when_used(r"(?i)\b(?:if|when|where|say|write|that|unless|use|put)\b|[\"'“`]")
_CONDITION = when_used(
    r"[\"'“”„«»「」『』`]|(?i:\b(?:si|wenn|falls|jeśli|если|se|als)\b)|如果|若|場合|缺"
)
_DOUBTS = {"elsewhere": _CONDITION, "open": _ABOUT_UNKNOWN, "value": _ABOUT_UNKNOWN}
_NEVER_CODE = ("note", "fixme", "bracket", "number", "inner", "open", "order", "elsewhere", "value")
_SMALL_TODO = when_used(r"\b(?:todo|fixme|tbd)\b")  # as in an app for todos
# A scaffold that was never filled in: it tells an author what to write.
_SCAFFOLD = when_used(
    r"(?:[,:，：]|^)[ \t]*(?P<blank>x{3,5})[ \t]*[.。]?$"
    r"|\b(?P<name>your_\w{1,30}_name|your_\w{1,30}_here|insert_\w{1,30}_here)\b"
    r"|\b(?:description|name|title|author|role|profile|background)\W{0,4}[:：][ \t]*"
    r"(?P<told>(?:describe|enter|insert|write|fill in|define) (?:your|the)\b[^\n]{0,60})"
    r"|^[ \t>*\-]*(?P<author>(?:define|describe|specify|explain|state|list)\b[^\n.]{0,120}"
    r"\byou (?:would like|want|expect) (?:the|this|your)"
    r" (?:model|assistant|llm|chatbot|agent) to\b)"
    r"|(?P<rater>\bkeep this document open\b)",
    re.MULTILINE,
)
# A fact that its author meant to look up: not a line or a label where a reader puts something in.
_BLANK_FACT = when_used(
    r"[a-z],? (?P<fact>[<\[](?:insert|add|enter|fill in|put)\b[^<>\[\]\n]{1,40}[>\]])"
)
_FACTS, _ANYBODY = map(frozenset, _TABLES["words"].values())
_MANY_FACTS = 3  # more are a form that somebody fills in each time
# A remark of the model that wrote the prompt: on “this prompt”, and at the reader's service.
_THIS_PROMPT, _LET_ME_KNOW = map(when_used, map(either, _TABLES["remarks"].values()))
_PROMPT_IN_ASCII = ("prompt", "invite", "instruction", "istem")  # what it is called there
_STRAY = when_used(r"[a-z][.!?][ \t]+(?P<stray>[=~^])[ \t]*$", re.MULTILINE)

_SIGNS = [*chain(*_TABLES["signs"].values()), *_TABLES["notes"]["labels"]]
_ANY_SIGN = quick_pattern(b"(?i)" + b"|".join(re.escape(sign).encode() for sign in _SIGNS))
_ANY_SCAFFOLD = quick_pattern(
    rb"(?i)xxx|your_\w|insert_\w|document open"
    rb"|[:\x9a][ \t]*(?:describe|enter|insert|write|fill in|define) (?:your|the)\b"
    rb"|you (?:would like|want|expect) (?:the|this|your) "
)
_NAMES = (
    *("note", "fixme", "lorem", "bracket", "progress", "development", "number"),
    *("inner", "open", "order", "elsewhere", "value", "capitals", "whole"),
)
_IN_A_LINE = ("fixme", "inner", "open", "order")

# Signs that an editor escaped: a tag, a variable, a line across the page; and what it left behind.
_ESCAPED = when_used(
    r"(?P<tag>\\</?[A-Za-z][\w\\-]{0,40}>)|(?P<variable>\{\{[^{}\n]{0,60}\\_[^{}\n]{0,60}\}\})"
    r"|^[ \t]*(?P<line>\\[=~-]{3,})[ \t\r]*$|^(?P<comment><!---->)[ \t\r]*$",
    re.MULTILINE,
)
_ANY_ESCAPE = quick_pattern(rb"\\[<_=~-]|<!---->")
_MACHINE_PATH = when_used(
    r"[A-Z/](?<![\w/\\$}].)(?:"  # the first letter first, so that `re` can skip to the next one
    r"(?<=[A-Z]):\\(?:Users\\)?(?P<drive>[\w. -]{1,40})\\[\w. -]{1,60}[\\.]"
    r"|(?<=/)(?:Users|home)/(?P<home>[A-Za-z][\w.-]{0,40})/[\w.-])"
)
_ANY_PATH = (b":\\", b"/Users/", b"/home/")


@rule("PE205", "warning", "completeness")
def leftover(reading: Reading) -> Iterator[Hit]:
    """TODO, lorem ipsum, “to be added”, the blanks of a scaffold.

    A model reads leftovers as part of the task. Finish the part, or remove it. Words about such
    notes (“no TODO without a ticket”), code and answers that mark what is open are left alone; the
    blanks of scaffolds are known in English.
    """
    if _ANY_SIGN.search(reading.data) is not None:
        text = reading.text
        for start in _lines_with(_ANY_SIGN, reading.data):
            match = _NOTE.search(text, start, _line_end(text, start))
            if match is not None and not _is_topic(reading, match):
                group = next(name for name in _NAMES if match[name])
                yield Hit(
                    match.start(group),
                    f"“{cited(match[group])}” is a leftover: write this part, such as “Answer in "
                    "two sentences.”, or remove it together with its heading.",
                )
    if reading.language.is_english and _ANY_SCAFFOLD.search(reading.data):
        yield from _scaffolds(reading)
    if reading.prompt.kind == "system_prompt" and reading.language.is_english:
        yield from _blank_facts(reading)
    yield from _remark(reading)
    text = reading.lowered
    is_likely = any(sign in text and f" {sign}" in text for sign in "=~^")
    for match in _STRAY.finditer(reading.lowered) if is_likely else ():
        place = reading.place(match.start("stray"))
        yield Hit(place, f"A stray sign ends the line: remove “{match['stray']}”.")


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _lines_with(sign: BytesPattern, data: bytes) -> Iterator[int]:
    matches = sign.finditer(data)
    at = index = 0
    for start in dict.fromkeys(data.rfind(b"\n", 0, each.span()[0]) + 1 for each in matches):
        index += len(data[at:start].decode("utf-8", "surrogatepass"))
        at = start
        yield index


def _is_topic(reading: Reading, match: re.Match[str]) -> bool:
    """Whether the words are what a prompt is about, or how an answer marks what is open."""
    group = next(name for name in _NAMES if match[name])
    if reading.prompt.type != "markdown" and match[0].strip() not in reading.core:
        return True
    line = reading.text[reading.text.rfind("\n", 0, match.start()) + 1 : match.end() + 40]
    doubted = _DOUBTS.get(group)
    if doubted is not None and doubted.search(line):
        return True
    if group in _IN_A_LINE and group != "fixme":
        line = line.replace(match[group], "")
    if group == "fixme":
        line = _CODE_SPAN.sub("", line)
    if group in _IN_A_LINE and (_ABOUT_NOTES.search(line) or _IN_CODE.search(line)):
        return True
    if group == "note" and _SMALL_TODO.search(match[group]):
        return True
    if group in _NEVER_CODE and reading.is_code_at(match.start(group)):
        return True
    if group == "value" and not _stands_alone(reading.text, match.start(), match.end()):
        return True
    if group == "lorem" and _LISTED.match(line):
        return True  # among other things that an answer must not hold
    return group in ("note", "capitals", "progress", "development") and line.lstrip().startswith(
        "|"
    )


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether a line is a paragraph after a finished one, and not part of a form."""
    before = text[:start].rstrip(" \t*")
    above = before.rstrip()
    is_after = not above or (before.endswith("\n\n") and above[-1] in ".!?。！？")
    return is_after and not text[end:].lstrip(" \t*").partition("\n")[2].partition("\n")[0].strip()


def _scaffolds(reading: Reading) -> Iterator[Hit]:
    if reading.prompt.kind in ("skill", "agent_rules"):
        return  # they show scaffolds to the agent that is to fill them in
    lowered = reading.lowered
    lines = _lines_with(_ANY_SCAFFOLD, lowered.encode("utf-8", "surrogatepass"))
    matches = [
        match
        for start in lines
        for match in _SCAFFOLD.finditer(lowered, start, _line_end(lowered, start))
    ]
    # Blanks alone may be how an answer is meant to look.
    is_scaffold = any(match.lastgroup not in _UNSURE for match in matches)
    for match in matches:
        group = match.lastgroup or "blank"
        place = reading.place(match.start(group))
        is_quoted = reading.text[place - 1 : place] in ('"', "'")  # a value in code
        if is_quoted or reading.is_code_at(place) or (group in _UNSURE and not is_scaffold):
            continue
        words = cited(reading.text[place : place + match.end(group) - match.start(group)])
        yield Hit(place, f"“{words}” is left from {_ORIGINS.get(group, _SCAFFOLDING)}")


_UNSURE = ("blank", "told")
_SCAFFOLDING = (
    "a scaffold: write what it stands for, such as “You review contracts for small companies.”"
)
_ORIGINS = {
    "rater": "instructions for people, and a model opens no document: write, say, “Read all of the "
    "summary before you rate it.”"
}


def _blank_facts(reading: Reading) -> Iterator[Hit]:
    if "[" not in reading.lowered and "<" not in reading.lowered:
        return
    facts = [
        match
        for match in _BLANK_FACT.finditer(reading.lowered)
        if not _FACTS.isdisjoint(match["fact"].strip("<>[]").split())
    ]
    for match in facts if len(facts) <= _MANY_FACTS else ():
        words = reading.prose[match.start("fact") : match.end()]
        yield Hit(
            reading.place(match.start("fact")),
            f"“{words}” is a blank that nobody fills in: write what belongs there, such as "
            "“https://example.com/booking”, or a variable such as `{{booking_link}}`.",
        )


def _remark(reading: Reading) -> Iterator[Hit]:
    """The last paragraph, if it speaks about the prompt to somebody who ordered one."""
    ended = reading.lowered.rstrip()
    start = ended.rfind("\n\n") + 2
    last = ended[start:]
    # In ASCII, words that every remark has are found sooner.
    if start <= 1 or (last.isascii() and not any(word in last for word in _PROMPT_IN_ASCII)):
        return
    if _THIS_PROMPT.search(ended, start) and _LET_ME_KNOW.search(ended, start):
        words = cited(reading.prose[start:])
        yield Hit(
            reading.place(start),
            f"A remark on the prompt by the model that drafted it: remove “{words}”.",
        )


@rule("PE308", "warning", "structure", kinds=ANSWERED)
def escaped_markup(reading: Reading) -> Iterator[Hit]:
    r"""Tags, variables or lines that an editor escaped with a backslash.

    `\<text>` is no tag and `{{user\_name}}` no variable: nothing fills it in. Remove the
    backslashes: `<text>`, `{{user_name}}`.
    """
    if "\\" not in reading.text and "<!---->" not in reading.text:  # as in most
        return
    if _ANY_ESCAPE.search(reading.data) is None:
        return
    lines: set[int] = set()
    for match in _ESCAPED.finditer(reading.text, reading.prompt.body_offset):
        place = match.start(match.lastgroup or 0)
        line = reading.line(place)
        if line in lines or reading.is_code_at(place):
            continue
        lines.add(line)
        found = match[match.lastgroup or 0]
        if match.lastgroup == "comment":
            yield Hit(place, "An empty comment that an editor left behind: remove it.")
        else:
            plain = found.replace("\\", "")
            yield Hit(place, f"“{found}” was escaped, and nothing reads it so: write `{plain}`.")


@rule("PE504", "info", "safety")
def machine_path(reading: Reading) -> Iterator[Hit]:
    """An absolute path that exists on one machine alone.

    It tells who wrote the prompt, and sends everybody else's agent astray. Write paths from the
    root of the project (`src/routes/`), or use a variable.
    """
    text = reading.text
    if not any(sign in reading.data for sign in _ANY_PATH):
        return
    lines: set[int] = set()
    for match in _MACHINE_PATH.finditer(text, reading.prompt.body_offset):
        owner = match[match.lastgroup or 0].lower()
        line = reading.line(match.start())
        if line not in lines and _ANYBODY.isdisjoint(re.split(r"[\W_]+", owner)):
            lines.add(line)
            yield Hit(
                match.start(),
                f"The path “{match[0]}…” exists on one machine alone: write it from the root of "
                "the project, such as `src/routes/`, or as a variable.",
            )
