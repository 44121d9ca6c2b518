"""Examples in JSON that are none, where it is certain that JSON was meant.

An example counts only if a slip that has a name explains all of it: once that is mended, it is
JSON. What has blanks to fill in, comments or types in place of values is a form, and no slip.
"""

import re
from collections.abc import Iterator

from evalwright.prompts.findings import Hit, rule
from evalwright.prompts.rules.prompt_text import Reading, is_json
from evalwright.signals.patterns import when_used
from evalwright.signals.word_tables import either, word_tables

_STAND_IN = ("{{", "{%", "<", "...", "…", "|", "//", "/*", "#", "${")
_JSON_INFOS = frozenset(("json", ""))
_ASSISTANT = when_used(r"(?i)(?:^|\n)[ \t#*]{0,12}assistant[ \t*]{0,4}:?[ \t*]{0,4}\n[ \t]*$")
# What stands on lines of its own from a brace on, and what has keys within a line.
_STANDING = when_used(r"(?m)^[ \t]*(\{(?:[^\n]|\n(?![ \t]*(?:\n|```|~~~)))*)")
_INLINE = when_used(r"\{[ \t]*[\"'][^{}\n]{1,300}:[^{}\n]{1,300}\}")
# Such an example is shown as what not to do, or as what is to be mended.
_SHOWN_AS_WRONG = when_used(f"(?i){either(*word_tables(__file__)['shown'].values())}")
_PAIRS = {"{": "}", "[": "]"}
_BEFORE = 160  # characters
_ABOVE = 1500
_MOST_IN_A_ROW = 50  # lines and fences above an example that announce nothing
_SENTENCE_END = when_used(r"[.!?。！？]\s+")
_HEADING = when_used(r"(?m)^ {0,3}#{1,6}[^\n]*")
_STRING = when_used(r"\"(?:[^\"\\\n]|\\.)*\"|(?<=[{\[,:\s])'[^'\n]*'")
_LONGEST = 5000
_TRAILING = (re.compile(r",(\s*[}\]])"), r"\1")
_MISSING = (
    re.compile(r"([\"\d\]}el])([ \t]*\n\s*(?=\")|[ \t]+(?=\"[^\"\n]*\"[ \t]*:))"),
    r"\1,\2",
)
_DOUBLED = (re.compile(r",(?:\s*,)+"), ",")
_CAPITAL = (
    re.compile(r"(?<=[\[:,\s])(True|False|None)(?=\s*[,}\]])"),
    lambda found: {"None": "null"}.get(found[1], found[1].lower()),
)
_OPEN_KEY = (re.compile(r"([{,]\s*\"[^\":,{}\n]+):"), r'\1":')
_BARE_KEY = (re.compile(r"([{,]\s*)([^\W\d]\w*)(\s*:)"), r'\1"\2"\3')
_CURLED = (re.compile(r"[“”„]"), '"')
_INNER = (
    re.compile(r"(?<=[:\[,])(\s*\"[^\"\n{}:]*)\"([^\"\n{}:,]+)\"([^\"\n{}:,]*\")(?=\s*[,}\]])"),
    r"\1\"\2\"\3",
)
_SINGLE = (re.compile(r"(?<=[{\[,:\s])'([^'\"\n]*)'(?=\s*[}\],:])"), r'"\1"')
_REMEDIES = (
    ("a comma before a closing bracket", "remove it", _TRAILING),
    ("typographic quotes", 'write straight ones (`"`)', _CURLED),
    ("texts in single quotes", "put keys and texts in double quotes", _SINGLE),
    ("a key without quotes", "put keys and texts in double quotes", _BARE_KEY),
    ("no comma between two entries", "put one between them", _MISSING),
    ("two commas in a row", "remove one", _DOUBLED),
    ("values of Python", "write `true`, `false` and `null`", _CAPITAL),
    ("quotes within a text", 'write `\\"` within it', _INNER),
    ("a key whose quote is never closed", "close it", _OPEN_KEY),
)


@rule("PE214", "warning", "clarity")
def unsound_json_example(reading: Reading) -> Iterator[Hit]:
    """An example of an answer in JSON that is no JSON.

    A model copies its examples, faults included. Put keys and texts in double quotes, commas
    between entries and none after the last, and close every bracket. Examples with blanks to fill
    in, comments or types are left alone, and so are those that are shown as wrong.
    """
    if b"json" not in reading.lowered_data or "{" not in reading.text:
        return
    seen: set[int] = set()
    for start, example in _examples(reading):
        line = reading.line(start)
        if line in seen or len(example) > _LONGEST:
            continue
        outside = _STRING.sub("", example)
        if any(sign in outside for sign in _STAND_IN):
            continue  # a form to fill in
        slip = _slip(example)
        if slip is None and not is_json(example) and _is_answer(reading, start):
            slip = ("values or keys without quotes", "put keys and texts in double quotes")
        if slip is None or _SHOWN_AS_WRONG.search(_announced(reading, start)) is not None:
            continue
        seen.add(line)
        fault, remedy = slip
        yield Hit(
            start,
            f"JSON is asked for, but this example is none: it has {fault}; {remedy}, as in "
            '`{"answer": "1/105", "sure": true}`.',
        )


def _examples(reading: Reading) -> Iterator[tuple[int, str]]:
    text = reading.text
    for fence in reading.fences:
        info = text[fence.start : fence.inside].strip().strip("`~").strip().lower()
        inside = text[fence.inside : fence.inside_end]
        opening = inside.lstrip()[:1]
        if info in _JSON_INFOS and fence.closed and opening in (("{", "[") if info else ("{",)):
            yield fence.inside + len(inside) - len(inside.lstrip()), inside.strip()
    for pattern, group in ((_STANDING, 1), (_INLINE, 0)):
        for match in pattern.finditer(text, reading.prompt.body_offset):
            place = match.start(group)
            if reading.is_code_at(place):
                continue
            example = match[group].strip()
            # Without the words that may follow the end of a block of lines.
            first = example.partition("\n")[0].rstrip()
            if first.endswith("}") and first.count("{") == first.count("}"):
                example = first
            elif not example.endswith("}") and (end := example.rfind("\n}")) >= 0:
                example = example[: end + 2]
            # Without a key in quotes it may be a variable, a set or a piece of code.
            if _is_answer(reading, place) or '"' in example or "'" in example:
                yield place, example


def _is_answer(reading: Reading, place: int) -> bool:
    """Whether a place is the first line of what the assistant says in a sample chat."""
    return _ASSISTANT.search(reading.text, max(0, place - _BEFORE), place) is not None


def _announced(reading: Reading, place: int) -> str:
    """What announces an example: the last sentence before it and the heading above.

    Of examples in a row, the first is announced.
    """
    text = reading.text
    fence = reading.fence_at(place)
    end = text.rfind("\n", 0, place) + 1 if fence is None else fence.start
    above = text[end:place] if fence is None else ""
    for _ in range(_MOST_IN_A_ROW):
        before = text[max(0, end - _ABOVE) : end].rstrip()
        if above.strip("`\"' \t").strip("{}[],") or not before:
            break
        last = max(0, end - _ABOVE) + len(before)
        fence = reading.fence_at(last - 1)
        end = text.rfind("\n", 0, last) + 1 if fence is None else fence.start
        above = text[end:last] if fence is None else ""
        above = "" if above.lstrip().startswith(("{", "}", "[")) else above
    before = text[max(0, place - _ABOVE) : place]
    heading = [*_HEADING.findall(before)][-1:]
    return " ".join([*heading, _SENTENCE_END.split(above.rstrip(".!? "))[-1]])


def _slip(example: str) -> tuple[str, str] | None:
    if is_json(example):
        return None
    lines = [line for line in example.split("\n") if line.strip()]
    if len(lines) > 1 and all(is_json(line.strip().rstrip(",")) for line in lines):
        return None  # a value on each line
    # A text in which every bracket that is opened is closed by its own kind.
    opened: list[str] = []
    written: list[str] = []
    for part in re.split(r'("(?:[^"\\\n]|\\.)*"|[{}\[\]])', example):
        if part in _PAIRS:
            opened.append(_PAIRS[part])
        written.append(opened.pop() if part in ("}", "]") and opened else part)
    mended = "".join(written)
    slip = (
        None if mended == example else ("a bracket closed by the other kind", "close it by its own")
    )
    if slip is not None and is_json(mended):
        return slip
    for fault, remedy, (pattern, replacement) in _REMEDIES:
        changed = pattern.sub(replacement, mended)
        if changed != mended:
            slip = slip or (fault, remedy)
            mended = changed
            if is_json(mended):
                return slip
    if mended[-1:] in ("}", "]") and is_json(mended[:-1]):
        return slip or ("a closing bracket that nothing opens", "remove it")
    left: list[str] = []  # brackets that are open at the end
    for sign in re.sub(r'"(?:[^"\\\n]|\\.)*"', "", mended):
        if sign in _PAIRS:
            left.append(_PAIRS[sign])
        elif sign in "}]" and (not left or left.pop() != sign):
            return None
    closing = "".join(reversed(left))
    if closing and is_json(mended + closing):
        return slip or ("an open bracket that is never closed", f"add `{closing}`")
    return None
