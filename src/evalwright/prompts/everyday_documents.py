"""Documents of everyday work that are no prompts: code and data, e-mails, minutes, to-do lists.

Each is told by what only a document of its kind has, such as who was present and who owes what.
Prompts that ask for such a document speak of it too: whether a text orders anything is asked by
`not_a_prompt`, before a verdict is given.
"""

from evalwright.prompts.rules.prompt_text import Reading, once
from evalwright.signals.patterns import when_used
from evalwright.signals.word_tables import either, word_tables

_LONGEST_SEARCHED = 60_000  # characters
_FIRST_PAGES = 6000
_LONGEST_LINE = 200  # of code, looked at
_FEWEST_LINES = 4
_MOSTLY_CODE, _MOSTLY_ITEMS, _ALL_ITEMS = 0.8, 0.6, 0.8  # of the lines
_HEADER_LINES = 8
_FEWEST_PHRASES = 3
_FEWEST_VERSES, _LONGEST_VERSE = 6, 9  # lines, and words of one
_LONGEST_UNSPACED_VERSE = 14  # letters

_TABLES = word_tables(__file__)
# A line that only a program, its settings or its output can hold.
_CODE_LINE = when_used(rf"\s*(?:{either(_TABLES['code']['line'])})")
_COMMENT_LINE = when_used(r"\s*#(?!#)")
_BLOB_LINE = when_used(r"[A-Za-z0-9+/=_-]{60,}$")
_CODE_MARKS = "(;=/"

_PRESENT, _OF_A_MEETING = map(tuple, _TABLES["minutes"].values())
_LONGEST_LABEL = 25  # characters
_BETWEEN_NAMES = (*",、，،;", " and ", " und ", " et ", " y ", " e ", " и ", " ve ", " và ")
_TO_DO = frozenset(_TABLES["to do"]["titles"])
_BULLETS = frozenset("-*+•[☐☑✅✔❌⬜")
_BOXES = ("[ ]", "[x] ", "[]", *"☐☑✅✔❌⬜")
_TICKED = ("[x] ", *"☑✅✔")

_SENDER_OR_DATE, _SUBJECT = map(frozenset, _TABLES["letters"].values())
_CONTRACT_PHRASES = _TABLES["contracts"]["phrases"]
_CLAUSE, _IS_SPECIFICATION, _ID, _HELD = map(either, _TABLES["patterns"].values())
_NUMBERED_CLAUSE = when_used(rf"(?m)^[ \t#*]{{0,6}}(?:{_CLAUSE})")
_SPECIFICATION = when_used(_IS_SPECIFICATION)
_REQUIREMENT = when_used(rf"(?m)^[ \t|*_#-]{{0,8}}(?:{_ID})[-_ ]?\d{{1,4}}\b")
_SPECIFIED = when_used(_HELD)


def is_code_or_data(reading: Reading) -> bool:
    """Source code, settings, a dump, a stack trace, a text of coded bytes."""
    body = reading.prompt.body[:_LONGEST_SEARCHED]
    lines = [line[:_LONGEST_LINE] for line in body.splitlines() if line.strip()]
    if all(map(_BLOB_LINE.match, lines)):
        return bool(lines)
    if len(lines) < _FEWEST_LINES or sum(map(body.count, _CODE_MARKS)) < len(lines) / 2:
        return False
    if "```" in body:
        return False
    code = [line for line in lines if _CODE_LINE.match(line)]
    comments = sum(1 for line in lines if _COMMENT_LINE.match(line))
    return len(code) >= _FEWEST_LINES - 1 and len(code) + comments >= _MOSTLY_CODE * len(lines)


def is_to_do_list(reading: Reading) -> bool:
    """Things to do, titled so or partly ticked off, and little else."""
    lines = [line for line in _lines(_lowered(reading)) if line[0] != "#"]
    items = [line for line in lines if line[0] in _BULLETS or line[0].isdigit()]
    if len(items) < _FEWEST_LINES - 1 or len(items) < _MOSTLY_ITEMS * len(lines):
        return False
    marks = [line.lstrip("-*+• \t") for line in items]
    if any(mark.startswith(_TICKED) for mark in marks):
        return sum(mark.startswith(_BOXES) for mark in marks) >= _ALL_ITEMS * len(lines)
    stem = reading.prompt.path.rpartition("/")[2].lower().partition(".")[0]
    return stem.replace("_", " ") in _TO_DO or _title(reading) in _TO_DO


def _title(reading: Reading) -> str:
    return reading.sections[0].key if reading.sections else ""


def _lines(text: str) -> list[str]:
    return list(filter(None, map(str.strip, text.splitlines())))


def is_minutes(reading: Reading) -> bool:
    """Who was at a meeting, by name, and what came of it."""
    text = _lowered(reading)[:_FIRST_PAGES]
    if not any(map(text.__contains__, _PRESENT)):
        return False
    for value in (_value(line) for line in _lines(text) if _is_who(_label(line))):
        has_more = any(sign in value for sign in _BETWEEN_NAMES)
        if has_more and not any(sign in value for sign in "[]{}<>"):
            break
    else:
        for section in (each for each in reading.sections if _is_who(each.key)):
            lines = _lines(reading.text[section.body : section.end])
            names = [line.strip("-*+• \t") for line in lines]
            if len(names) > 1 and all(0 < len(name.split()) <= 5 for name in names):
                break
        else:
            return False
    return any(map(text.__contains__, _OF_A_MEETING))


def _label(line: str) -> str:
    """What stands before a colon, without marks around it; nothing where a line has no label."""
    label, colon, _ = line[: 2 * _LONGEST_LABEL].replace("：", ":").partition(":")
    return label.strip("#>*_-• \t") if colon else ""


def _value(line: str) -> str:
    return line.replace("：", ":").partition(":")[2].strip("*_ \t")


def _is_who(label: str) -> bool:
    return label.startswith(_PRESENT) and len(label) <= _LONGEST_LABEL


def is_letter(reading: Reading) -> bool:
    """An e-mail with its head: a subject, and who wrote it to whom or when."""
    head = _lines(_lowered(reading)[:2000])[:_HEADER_LINES]
    filled = (line for line in head if _value(line)[:1] not in ("", "[", "{", "<"))
    labels = {_label(line).replace(" ", "") for line in filled}
    return not labels.isdisjoint(_SUBJECT) and not labels.isdisjoint(_SENDER_OR_DATE)


def is_contract(reading: Reading) -> bool:
    """Parties, clauses with numbers, and the words of lawyers."""
    text = _lowered(reading)[:_FIRST_PAGES]
    found = sum(map(text.__contains__, _CONTRACT_PHRASES))
    return found >= _FEWEST_PHRASES and len(_NUMBERED_CLAUSE.findall(text)) >= _FEWEST_PHRASES


def is_specification(reading: Reading) -> bool:
    """A text that calls itself a specification, with requirements by number or by section."""
    title = _title(reading)
    if not title or _SPECIFICATION.search(title) is None:
        return False
    titles = {each.key for each in reading.sections if _SPECIFIED.search(each.key)}
    return len(titles) + len(_REQUIREMENT.findall(_lowered(reading))) >= _FEWEST_PHRASES


def is_verse(reading: Reading) -> bool:
    """Short lines that run on into each other: a poem or a song."""
    lines = _lines(reading.prompt.body[:2000])
    verses = [line for line in lines if line[0] not in "#<{[|-*+>" and not line[0].isdigit()]
    if len(verses) < _FEWEST_VERSES or len(verses) < _ALL_ITEMS * len(lines):
        return False
    running_on = sum(line[-1] not in ".!。！;；" for line in verses)
    return running_on >= len(verses) / 2 and all(map(_is_short, verses))


def _is_short(line: str) -> bool:
    if line[-1] in ":：?？":
        return False
    words = line.split()
    most = _LONGEST_UNSPACED_VERSE if len(words) == 1 else 60
    return len(words) <= _LONGEST_VERSE and len(line) <= most


@once
def _lowered(reading: Reading) -> str:
    return reading.prompt.body[:_LONGEST_SEARCHED].lower()
