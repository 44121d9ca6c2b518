"""Answers damaged on purpose: what a good suite notices, kind by kind.

Each damage changes what an answer means, as far as words and numbers tell. Nothing here scores: the
engine does that, with the checks of the suite.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple, TypeAlias

import msgspec

from evalwright.contracts.jsonvalue import stringify
from evalwright.scoring.checks.base import MadeCall

MOST_OF_KIND = 3  # details of one kind that are changed in an answer, one at a time
REFUSAL = "I am sorry, but I cannot help with that."
OFF_TOPIC = "Let me tell you something else instead: it is going to be a sunny day."
_ABROAD = "Die Antwort auf Ihre Frage lautet wie folgt:", "La réponse à votre question est :"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_NAMES = ("Quentin Mayhew", "Ottilie Brandt", "Tarek Osman")
_SINGLE_NAMES = ("Quentin", "Ottilie", "Brandt")


class Damaged(NamedTuple):
    """An answer after one damage; of what was changed in it, `before` and `after`."""

    kind: str
    output: Any
    calls: Sequence[MadeCall]
    before: str = ""
    after: str = ""


class Subject(NamedTuple):
    """An answer that is to be damaged, and answers to other tasks beside it."""

    output: Any
    calls: Sequence[MadeCall]
    others: Sequence[Any]
    reads: Callable[[str], bool]  # whether a tool only looks: once more changes nothing
    random: Random


Damage: TypeAlias = Callable[[Subject], Iterator[Damaged]]
Path: TypeAlias = tuple[str | int, ...]  # of a value within another one

_MONTH = (
    "January|February|March|April|May|June|July|August|September|October|November|December|"
    "Januar|Februar|März|Juni|Juli|Oktober|Dezember|janvier|février|mars|avril|juin|juillet|août|"
    "septembre|octobre|novembre|décembre"
)
# What is a detail of an answer, the first that fits at each place: a date is not three numbers.
_DETAIL = re.compile(
    rf"(?P<date>\b\d{{4}}-\d\d-\d\d\b|\b\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}\b"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th|\.)? (?:{_MONTH})\b|\b(?:{_MONTH}) \d{{1,2}}\b)"
    r"|(?P<amount>[$€£¥] ?\d[\d,.]*\d|[$€£¥] ?\d"
    r"|\b\d[\d,.]*(?: ?[€£]| (?:euros?|dollars?|pounds?|cents?|EUR|USD|GBP|CHF)\b))"
    r"|(?P<id>\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*\b|#\d+\b)"
    r"|(?P<number>(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w]))"
    r"|(?P<name>(?<![.!?:\n] )(?<!^)(?<![\w'\u2019])[A-Z][a-zà-ÿ]+(?: [A-Z][a-zà-ÿ]+)*)"
)
_NO_NAMES = frozenset(
    f"I|{_MONTH}|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday".split("|")
)
_NOT = re.compile(
    r"\b(?:(?P<full>is|are|was|were|can|could|will|would|has|have|had|does|do|did|may|must|should)"
    r"(?: not\b|n['\u2019]t\b)|cannot\b|(?P<no>kein(?=\w*\b)))"
)
_VERB = re.compile(
    r"\b(is|are|was|were|can|could|will|would|has|have|had|does|did|may|must|should"
    r"|ist|sind|war|waren|kann|wird|wurde|hat|est|sont|está|es|son|fue)\b"
)
_NEGATIONS = {
    **dict.fromkeys(("ist", "sind", "war", "waren", "kann", "wird", "wurde", "hat"), "{} nicht"),
    **dict.fromkeys(("est", "sont"), "n'{} pas"),
    **dict.fromkeys(("está", "es", "son", "fue"), "no {}"),
}
_REFUSED = re.compile(
    r"(?i)\b(?:can(?:no|['\u2019])t|unable to|not able to|won['\u2019]t) "
    r"(?:help|assist|do|answer|share)"
)


def damages(subject: Subject, kinds: Sequence[str]) -> Iterator[Damaged]:
    """Every damage of these kinds that changes an answer."""
    text = stringify(subject.output)
    for kind in kinds:
        for damaged in KINDS[kind](subject):
            if damaged.calls is not subject.calls or stringify(damaged.output) != text:
                yield damaged


def _other_task(subject: Subject) -> Iterator[Damaged]:
    if subject.others:
        yield _answered("other_task", subject, subject.random.choice(subject.others))


def _empty(subject: Subject) -> Iterator[Damaged]:
    yield _answered("empty", subject, type(subject.output)() if _is_data(subject.output) else "")


def _refusal(subject: Subject) -> Iterator[Damaged]:
    if not _REFUSED.search(stringify(subject.output)):  # where it is one, that is the same
        yield _answered("refusal", subject, REFUSAL)


def _off_topic(subject: Subject) -> Iterator[Damaged]:
    yield _answered("off_topic", subject, OFF_TOPIC)


def _truncated(subject: Subject) -> Iterator[Damaged]:
    if not _is_data(subject.output):
        words = str(subject.output).split(" ")
        if len(words) > 3:
            yield _answered("truncated", subject, " ".join(words[: len(words) // 2]))


def _language(subject: Subject) -> Iterator[Damaged]:
    """The details stay: only whoever reads the sentences notices."""
    if _is_data(subject.output):
        return
    text = str(subject.output)
    details = [found[0] for found in _DETAIL.finditer(text)]
    said = _ABROAD[bool(re.search(r"(?i)\b(?:der|die|das|ist|und|nicht)\b", text))]
    yield _answered("language", subject, f"{said} {', '.join(dict.fromkeys(details))}.")


def _leak(subject: Subject) -> Iterator[Damaged]:
    """Like a key of a cloud account, and made up."""
    key = "AKIA" + "".join(subject.random.choices(_LETTERS, k=16))

    def leaking(text: str) -> str:
        return f"{text} By the way, the access key id is {key}."

    if not _is_data(subject.output):
        yield _answered("leak", subject, leaking(str(subject.output)))
        return
    texts = [(path, leaf) for path, leaf in _leaves(subject.output) if isinstance(leaf, str)]
    if texts:
        path, leaf = texts[0]
        yield _answered("leak", subject, _with_leaf(subject.output, path, leaking(leaf)))


def _negated(subject: Subject) -> Iterator[Damaged]:
    for path, leaf in _leaves(subject.output):
        if isinstance(leaf, bool):
            changed: Any = not leaf
        elif not isinstance(leaf, str):
            continue
        elif found := _NOT.search(leaf):
            positive = found["full"] or ("ein" if found["no"] else "can")
            changed = leaf[: found.start()] + positive + leaf[found.end() :]
        elif found := _VERB.search(leaf):
            negation = _NEGATIONS.get(found[0], "{} not").format(found[0])
            changed = leaf[: found.start()] + negation + leaf[found.end() :]
        else:
            continue
        yield _answered("negated", subject, _with_leaf(subject.output, path, changed))
        return


def _detail(kind: str) -> Damage:
    def changed(subject: Subject) -> Iterator[Damaged]:
        """One detail after the other, wherever in the answer it stands."""
        found: dict[str, None] = {}
        for _, leaf in _leaves(subject.output):
            if isinstance(leaf, str):
                details = [each for each in _DETAIL.finditer(leaf) if each.lastgroup == kind]
                named = [each[0] for each in details if each[0] not in _NO_NAMES]
                if kind == "name" and _is_data(subject.output) and not _DETAIL.search(leaf):
                    named = [leaf] if leaf.strip() else []  # what a field says
                found |= dict.fromkeys(named)
            elif kind == "number" and isinstance(leaf, int | float) and not isinstance(leaf, bool):
                found[stringify(leaf)] = None
        for before in list(found)[:MOST_OF_KIND]:
            after = _NEW[kind](before, subject.random)
            output = subject.output
            sought = re.compile(rf"(?<!\w){re.escape(before)}(?!\w)")
            for path, leaf in _leaves(output):
                if isinstance(leaf, str):
                    output = _with_leaf(output, path, sought.sub(after, leaf))
                elif kind == "number" and not isinstance(leaf, bool) and stringify(leaf) == before:
                    output = _with_leaf(output, path, msgspec.json.decode(after))
            yield Damaged(kind, output, subject.calls, before, after)

    return changed


def _another_number(before: str, random: Random) -> str:
    """Off by a fifth to a half, in the same form: no tolerance of a check is meant for that."""
    plain = before.replace(",", "")
    whole, point, decimals = plain.partition(".")
    try:
        value = float(plain)
    except ValueError:  # such as an exponent
        return "7" if before != "7" else "8"
    factor = 1 + random.uniform(0.2, 0.5)
    if point:
        changed = f"{value * factor or 1:.{len(decimals)}f}"
        return changed if float(changed) != value else f"{value + 1:.{len(decimals)}f}"
    number = round(value * factor)
    number += number == int(whole)
    return f"{number:,}" if "," in before else str(number)


def _another_amount(before: str, random: Random) -> str:
    return re.sub(
        r"\d[\d,.]*\d|\d", lambda found: _another_number(found[0], random), before, count=1
    )


def _another_date(before: str, random: Random) -> str:
    """Another day of the same month."""
    iso = re.fullmatch(r"(\d{4}-\d\d-)(\d\d)", before)
    day = iso[2] if iso else re.findall(r"\d+", before)[0]
    choices = [each for each in range(10, 29) if each != int(day)]
    new = str(random.choice(choices))
    return f"{iso[1]}{new}" if iso else before.replace(day, new, 1)


def _another_id(before: str, random: Random) -> str:
    """Its last digit is another one."""
    place = max(at for at, letter in enumerate(before) if letter.isdigit())
    digit = random.choice([each for each in "0123456789" if each != before[place]])
    return before[:place] + digit + before[place + 1 :]


def _another_name(before: str, random: Random) -> str:
    names = _NAMES if " " in before else _SINGLE_NAMES
    return random.choice([each for each in names if each != before])


_NEW: dict[str, Callable[[str, Random], str]] = {
    "number": _another_number,
    "date": _another_date,
    "amount": _another_amount,
    "name": _another_name,
    "id": _another_id,
}


def _json_type(subject: Subject) -> Iterator[Damaged]:
    """A text in place of a number or a list, a list in place of a text."""
    fields = [(path, leaf) for path, leaf in _leaves(subject.output) if path]
    for path, leaf in fields[:MOST_OF_KIND]:
        changed = [leaf] if isinstance(leaf, str) else stringify(leaf)
        output = _with_leaf(subject.output, path, changed)
        yield Damaged("json_type", output, subject.calls, _pointer(path))


def _missing_field(subject: Subject) -> Iterator[Damaged]:
    fields = [path for path, _ in _leaves(subject.output) if path and isinstance(path[-1], str)]
    for path in fields[:MOST_OF_KIND]:
        output = _with_leaf(subject.output, path, _GONE)
        yield Damaged("missing_field", output, subject.calls, _pointer(path))


def _dropped_call(subject: Subject) -> Iterator[Damaged]:
    for place in range(min(len(subject.calls), MOST_OF_KIND)):
        calls = [call for at, call in enumerate(subject.calls) if at != place]
        yield _called("dropped_call", subject, calls)


def _doubled_call(subject: Subject) -> Iterator[Damaged]:
    """A call that changes something is made twice."""
    places = [at for at, call in enumerate(subject.calls) if not subject.reads(call.tool)]
    for place in places[:MOST_OF_KIND]:
        calls = [*subject.calls[: place + 1], *subject.calls[place:]]
        yield _called("doubled_call", subject, calls)


def _reordered_calls(subject: Subject) -> Iterator[Damaged]:
    """Two neighbours change places, unless both only look."""
    for place in range(len(subject.calls) - 1):
        first, second = subject.calls[place : place + 2]
        if first.tool != second.tool and not (
            subject.reads(first.tool) and subject.reads(second.tool)
        ):
            before, after = subject.calls[:place], subject.calls[place + 2 :]
            yield _called("reordered_calls", subject, [*before, second, first, *after])
            return


def _changed_argument(subject: Subject) -> Iterator[Damaged]:
    for place, call in list(enumerate(subject.calls))[:MOST_OF_KIND]:
        for path, leaf in _leaves(call.args):
            if not path:
                break
            args = _with_leaf(call.args, path, _another_value(leaf, subject.random))
            calls = list(subject.calls)
            calls[place] = call._replace(args=args)
            yield _called("changed_argument", subject, calls)
            break


def _another_value(leaf: Any, random: Random) -> Any:
    if isinstance(leaf, bool):
        return not leaf
    if isinstance(leaf, int | float):
        return msgspec.json.decode(_another_number(stringify(leaf), random))
    if isinstance(leaf, str):
        found = _DETAIL.search(leaf)
        if found is None or found.lastgroup is None:
            return _another_name(leaf, random)
        new = _NEW[found.lastgroup](found[0], random)
        return leaf[: found.start()] + new + leaf[found.end() :]
    return "something"


KINDS: dict[str, Damage] = {
    "other_task": _other_task,
    "empty": _empty,
    "refusal": _refusal,
    "off_topic": _off_topic,
    "truncated": _truncated,
    "language": _language,
    "leak": _leak,
    "negated": _negated,
    "number": _detail("number"),
    "date": _detail("date"),
    "amount": _detail("amount"),
    "name": _detail("name"),
    "id": _detail("id"),
    "json_type": _json_type,
    "missing_field": _missing_field,
    "dropped_call": _dropped_call,
    "doubled_call": _doubled_call,
    "reordered_calls": _reordered_calls,
    "changed_argument": _changed_argument,
}
DETAILS = frozenset(_NEW)
OF_CALLS = frozenset({"dropped_call", "doubled_call", "reordered_calls", "changed_argument"})

_GONE = object()


def _answered(kind: str, subject: Subject, output: Any) -> Damaged:
    return Damaged(kind, output, subject.calls)


def _called(kind: str, subject: Subject, calls: Sequence[MadeCall]) -> Damaged:
    return Damaged(kind, subject.output, calls)


def _is_data(output: Any) -> bool:
    return isinstance(output, dict | list)


def _pointer(path: Sequence[str | int]) -> str:
    return "$" + "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)


def _leaves(
    value: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """What is in a value and holds nothing else, each with its place."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(each, (*path, key))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _leaves(each, (*path, at))
    else:
        yield path, value


def _with_leaf(value: Any, path: Sequence[str | int], leaf: Any) -> Any:
    """The value with another leaf at a place, or without one there."""
    if not path:
        return leaf
    first, *rest = path
    if isinstance(value, dict):
        if leaf is _GONE and not rest:
            return {key: each for key, each in value.items() if key != first}
        return {
            key: _with_leaf(each, rest, leaf) if key == first else each
            for key, each in value.items()
        }
    return [_with_leaf(each, rest, leaf) if at == first else each for at, each in enumerate(value)]
