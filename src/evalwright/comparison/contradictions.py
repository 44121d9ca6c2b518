"""Values in an answer that contradict what the tools said: ids, amounts, dates and names.

A value is a contradiction only when the results hold another one for the same thing, and when it
is nowhere in what the agent was given. A value that can be computed from known ones is not one.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeAlias

import msgspec
import re2

from evalwright.trace.model import (
    GOOD_STATUSES,
    Trace,
    text_of,
)
from evalwright.trace.paired_calls import pair_results

Kind: TypeAlias = Literal["id", "amount", "date", "name"]
Label: TypeAlias = tuple[str, ...]
Day: TypeAlias = tuple[int, int]

MOST_VALUES = 5_000
_MONTHS = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?|"
    "oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_FIRST_LETTERS = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_DATE = (
    rf"\d{{4}}-\d\d-\d\d|(?i:(?:{_MONTHS})\.?\s+\d\d?(?:st|nd|rd|th)?\b(?:,?\s+\d{{4}})?|"
    rf"\d\d?(?:st|nd|rd|th)?\s+(?:of\s+)?(?:{_MONTHS})\b)"
)
_NAME = r"[A-Z][a-z'-]+(?: [A-Z][a-z'-]+){1,2}"
# `re` where nothing can backtrack far: short texts, and many matches, are quicker with it.
# The lookbehind is a word boundary before the capital; one in front would keep `re` from going
# straight to the next capital.
_ID = re.compile(r"([A-Z](?<!\w[A-Z])(?:[A-Za-z]{0,9}[-_#]|[A-Z]{0,4}))(\d{3,30})\b", re.ASCII)
_DIGIT = re.compile(r"\d", re.ASCII)
_FIELD = re2.compile(
    r"([A-Za-z][A-Za-z_]*(?: [A-Za-z_]+){0,3})(?:\s+(?:is|was|of)\s+|\s*[:=]\s*)"
    rf"(?:({_DATE})|([$€£]?\s?{_NUMBER})|({_NAME}))"
)
_MENTION = re2.compile(rf"({_DATE})|[$€£]\s?{_NUMBER}|\b{_NUMBER} (?:USD|EUR|GBP|dollars|euros)\b")
# One look tells whether there is any; without groups, and in bytes, it is quicker.
_UNGROUPED = re2.Options()
_UNGROUPED.never_capture = True
_FIELD_OR_MENTION = re2.compile(f"{_FIELD.pattern}|{_MENTION.pattern}", _UNGROUPED)
_ENTITY = re2.compile(
    r"[\"']([^\"'\n]{4,60})[\"']|\b([A-Z][\w&.-]*(?: (?:[A-Z][\w&.-]*|of|the|de|la|\d+))+|"
    r"[A-Z]+[-_#]?\d{3,})"
)
_DERIVED = re2.compile(
    r"(?i)[+=/~]|\b(?:totals?|sum|difference|\d+ (?:days?|nights?|weeks?|months?|people|persons)|"
    r"weekly|monthly|yearly|approx\w*|about|around|between|estimated|average|combined|altogether|"
    r"sav\w+|refund\w*|discount\w*|tax\w*|fees?|extra|more|less|than|remaining|left|budget|spent|"
    r"new|today|tomorrow|yesterday|until|till|through|later|earlier|next|last|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b|\d-\d"
)
_YEAR = 4  # digits
_REACH = 160
_CLOSE = 40
_SHORTEST_ENTITY = 4
_DATES = re2.compile(
    rf"\b\d{{4}} ?- ?(\d ?\d) ?- ?(\d ?\d)|(?i)\b({_MONTHS})\.?\s+(\d\d?)(?:st|nd|rd|th)?\b|"
    rf"\b(\d\d?)(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTHS})\b|\b(\d\d?)/(\d\d?)/\d{{2,4}}\b"
)
_ANY_DATE = re2.compile(_DATE)
_AMOUNT = re2.compile(r"[$€£]\s?\d[\d,]*(?:\.\d+)?|\b\d[\d,]*\.\d+")
_NUMBERS = re.compile(_NUMBER)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_WHOLE_NAME = re2.compile(rf"^{_NAME}$")
_WHOLE_NUMBER = re.compile(rf"[$€£]?[ \t\r\n\f]?-?{_NUMBER}", re.ASCII)
_ID_WORDS = frozenset({"id", "ids", "number", "code", "ref", "reference", "uuid", "sku", "iban"})
_NAME_WORDS = frozenset({"name", "author", "owner", "assignee", "manager"})


class Statement(msgspec.Struct, frozen=True, gc=False):
    """One value of an answer.

    It is known by its `label`, which is `exact` when it is a key of the answer, or, as an id, by
    itself, or by the text `before` it; `around` are the words close to it.
    """

    kind: Kind
    value: str
    label: Label = ()
    exact: bool = False
    before: str = ""
    around: str = ""


def label_of(name: str) -> Label:
    """The words of a field's name, in lower case."""
    return _split(name[:80])


@lru_cache(maxsize=4096)
def _split(name: str) -> Label:
    return tuple(word.lower() for word in _WORDS.findall(name))


def statements(content: Any) -> list[Statement]:
    """All that an answer states, be it text or JSON."""
    if isinstance(content, str):
        plain = content.replace("*", "").replace("`", "")
        if _FIELD_OR_MENTION.search(plain.encode()) is None:
            return list(_ids(plain))
        found = list(_ids(plain))
        for name, date, amount, person in _FIELD.findall(plain):
            of: Kind = "date" if date else "amount" if amount else "name"
            found.append(Statement(of, date or amount or person, label_of(name)))
        # Amounts of money and dates anywhere, with the words that lead to them.
        for match in _MENTION.finditer(plain):
            start, end = match.span()
            mention = Statement(
                "date" if match.group(1) else "amount",
                match.group(0),
                before=plain[max(0, start - _REACH) : start],
                around=plain[max(0, start - _CLOSE) : end + _CLOSE],
            )
            found.append(mention)
        return found
    return [
        Statement(kind, value, label, exact=True)
        for label, value in scalars(content)
        if (kind := _kind_of_field(label, value)) is not None
    ]


def _ids(text: str) -> Iterator[Statement]:
    for prefix, digits in _ID.findall(text):
        if len(digits) != _YEAR or not digits.startswith(("19", "20")):
            yield Statement("id", prefix + digits)


def entities_in(text: str) -> list[str]:
    """What a text names: quoted titles, ids, and names of several words; last first."""
    found = (quoted or name for quoted, name in _ENTITY.findall(text))
    return [each for each in found if len(each) > _SHORTEST_ENTITY][::-1]


def is_derived(around: str) -> bool:
    """Whether the words around a value say that it was computed or rounded."""
    return _DERIVED.search(around) is not None


def _kind_of_field(label: Label, value: str) -> Kind | None:
    """What a field of a JSON answer holds; free text and states of things are nothing to check."""
    if not label or len(value) > 100:
        return None
    if not _ID_WORDS.isdisjoint(label):
        return "id" if any(map(str.isdigit, value)) else None
    if _WHOLE_NUMBER.fullmatch(value):
        return "amount"
    if len(value) <= 40 and days_in(value):
        return "date"
    return "name" if not _NAME_WORDS.isdisjoint(label) and _WHOLE_NAME.search(value) else None


def scalars(value: Any) -> Iterator[tuple[Label, str]]:
    """Every text and number of a JSON value with the label of its key."""
    waiting: list[tuple[Label, Any]] = [((), value)]
    seen = 0
    while waiting and seen < MOST_VALUES:
        label, each = waiting.pop()
        seen += 1
        if isinstance(each, str):
            yield label, each
        elif isinstance(each, int | float) and not isinstance(each, bool):
            try:
                written = repr(each)
            except ValueError:  # Python refuses to write out integers of thousands of digits
                written = ""
            yield label, written
        elif isinstance(each, dict):
            inside = [(label_of(str(key)), inner) for key, inner in each.items()]
            waiting += inside[:MOST_VALUES][::-1]
        elif isinstance(each, list | tuple):
            waiting += [(label, inner) for inner in each[:MOST_VALUES]][::-1]


def prefix_of(identifier: str) -> str:
    """The part of an id before its digits."""
    return identifier.rstrip("0123456789")


def same_shape(identifier: str) -> Any:
    """A pattern for the ids of the same prefix and as many digits."""
    prefix = prefix_of(identifier)
    digits = len(identifier) - len(prefix)
    return re2.compile(rf"\b{re2.escape(prefix)}\d{{{digits}}}\b")


def number_in(value: str) -> float | None:
    """The number that a value is, if it is one, without currency and thousands separators."""
    if not _WHOLE_NUMBER.fullmatch(value[:40]):
        return None
    try:
        return float(value.strip("$€£ ").replace(",", ""))
    except ValueError:
        return None


def hundredths_in(text: str) -> set[int]:
    """All numbers of a text, in hundredths, so that equal amounts are equal."""
    found = {each.replace(",", "") for each in _NUMBERS.findall(text)}
    return {round(float(each) * 100) for each in found if len(each) < 16}


def days_in(text: str) -> set[Day]:
    """The days, as month and day of the month, that a text names in any of the usual forms."""
    found: set[Day] = set()
    if _DIGIT.search(text) is None:
        return found
    for iso_month, iso_day, month, day, day_first, month_last, one, other in _DATES.findall(text):
        if iso_month:
            found.add((int(iso_month.replace(" ", "")), int(iso_day.replace(" ", ""))))
        elif month or month_last:
            name = (month or month_last)[:3].lower()
            found.add((_FIRST_LETTERS.index(name) + 1, int(day or day_first)))
        else:  # which of the two is the month depends on the country
            found |= {(int(one), int(other)), (int(other), int(one))}
    return found


def first_value(kind: Kind, text: str) -> str | None:
    """The first date of a text, or the first number that is written like an amount."""
    match = (_ANY_DATE if kind == "date" else _AMOUNT).search(text)
    return match.group(0) if match else None


def stands_in(value: str, text: str) -> bool:
    """Whether a text holds a value as a whole word, not within a longer one."""
    place = text.find(value)
    while place >= 0:
        end = place + len(value)
        if not (text[place - 1 : place].isalnum() or text[end : end + 1].isalnum()):
            return True
        place = text.find(value, place + 1)
    return False


_COMPUTED = frozenset(
    {
        "total", "sum", "subtotal", "difference", "average", "mean", "remaining", "new", "refund",
        "change", "estimated", "count", "duration", "score", "confidence", "rank", "page",
        "length", "size", "percent", "percentage", "per", "each", "more", "less", "cost", "costs",
        "fee", "maximum", "minimum", "max", "min",
    }
)  # fmt: skip
MOST_TEXT = 5_000_000
MOST_STATEMENTS = 200
_MOST_NUMBERS = 2_000
_AROUND = 200  # characters around a name in which a result is about it
_SMALL = 31  # counts, days and ratings up to here are reckoned, not quoted
# `re` here, and for numbers: nothing in them can backtrack, and many matches are quicker with it
_LINE = re.compile(r"^[ \t-]{0,40}[\"']?([A-Za-z][\w ]{0,40})[\"']?:[ \t]+(\S[^\n]*)", re.MULTILINE)


class Contradiction(msgspec.Struct, frozen=True):
    """A stated value, and the result that holds another one for the same thing."""

    kind: Kind
    value: str
    rival: str
    message: str
    result_index: int
    output_index: int | None


class Rival(msgspec.Struct, frozen=True, gc=False):
    """A value that a result gave, by the index of its event."""

    value: str
    index: int


def contradictions(trace: Trace) -> list[Contradiction]:
    """The values of the answer that contradict the tool results, each once.

    Traces of more than MOST_TEXT characters are not compared.
    """
    output = trace.output
    if output is None or trace.failure is not None:
        return []
    stated = statements(_structured(output.content))[:MOST_STATEMENTS]
    stated = [each for each in stated if _may_contradict(each, trace)]
    if not stated:
        return []
    known = KnownText(trace)
    if len(known.text) > MOST_TEXT:
        return []
    found: dict[str, Contradiction] = {}
    for each in stated:
        rival = None if each.value in found else _rival(each, known)
        if rival is not None:
            what = " ".join(each.label) or each.kind
            found[each.value] = Contradiction(
                each.kind,
                each.value,
                rival.value[:100],
                f"the output states {what} {each.value}, the tool results hold {rival.value[:100]}",
                rival.index,
                output.index,
            )
    return list(found.values())


def _structured(content: Any) -> Any:
    """JSON that an agent answered as text is read as JSON."""
    if isinstance(content, str) and content.lstrip()[:1] in ("{", "["):
        try:
            return msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return content
    return content


class KnownText:
    """What the agent was given, in the forms that statements are held against."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        indexes = (event.index for event in trace.results)
        self.results = list(zip(indexes, trace.payload_texts, strict=True))

    @cached_property
    def text(self) -> str:
        """Results, retrievals, the words of user and operator, and arguments that worked."""
        said = [self._trace.system, self._trace.prompt, *(text for _, text in self.results)]
        for retrieval in self._trace.retrievals:
            said += [text_of(retrieval.content), " ".join(retrieval.doc_ids)]
        said += [text_of(each.content) for each in self._trace.messages if each.role != "assistant"]
        answers = pair_results(self._trace)
        for call in self._trace.calls:
            result = answers.get(call.index)
            if result is not None and result.status.casefold() in GOOD_STATUSES:  # it worked
                said.append(text_of(call.args))
        return "\n".join(said)

    def holds(self, value: str) -> bool:
        """Whether a value is in it as a whole word."""
        return stands_in(value, self.text)

    @cached_property
    def folded(self) -> str:
        """All of it without regard to case."""
        return self.text.casefold()

    @cached_property
    def cents(self) -> set[int]:
        """Every number in it, in hundredths."""
        return hundredths_in(self.text)

    @cached_property
    def days(self) -> set[tuple[int, int]]:
        """Every day of the year in it."""
        return days_in(self.text)

    @cached_property
    def fields(self) -> dict[Label, list[Rival]]:
        """The scalars of the results by the name of their field."""
        fields: dict[Label, list[Rival]] = {}
        for event in self._trace.results:
            content = _structured(event.payload)
            found: Iterable[tuple[Label, str]] = scalars(content)
            if isinstance(content, str):
                lines = _LINE.findall(content)
                found = ((label_of(name), value.strip("\"' ,")) for name, value in lines)
            for label, value in found:
                fields.setdefault(label, []).append(Rival(value, event.index))
        return fields


def _rival(stated: Statement, known: KnownText) -> Rival | None:
    if known.holds(stated.value):
        return None
    if stated.kind == "id" and not stated.exact:
        pattern = same_shape(stated.value)
        for index, text in known.results:
            match = pattern.search(text)
            if match:
                return Rival(match.group(0), index)
        return None
    rivals = _rivals(stated, known)
    # A number may be written otherwise in the text of a result, and yet be the same.
    if any(rival.value == stated.value for rival in rivals):
        return None
    if not rivals or _is_known(stated, known):
        return None
    return rivals[0]


def _rivals(stated: Statement, known: KnownText) -> list[Rival]:
    if stated.before:
        # An amount or a date that a result holds close to a name in the answer, too.
        if is_derived(stated.around):
            return []
        for entity in entities_in(stated.before):
            for index, text in known.results:
                place = text.find(entity)
                if place >= 0:
                    near = text[max(0, place - _AROUND) : place + len(entity) + _AROUND]
                    value = first_value(stated.kind, near)
                    return [Rival(value, index)] if value else []
        return []
    # The fields of the same name; before a value in a text, other words may precede the name.
    longest = 1 if stated.exact else len(stated.label)
    same = (known.fields.get(stated.label[start:]) for start in range(longest))
    found = [each for each in next(filter(None, same), ()) if _comparable(stated, each)]
    # one of several persons is often rightly called by another name
    several = stated.kind == "name" and len({each.value for each in found}) > 1
    return [] if several else found


def _may_contradict(stated: Statement, trace: Trace) -> bool:
    """Whether no result holds the value, and one may hold another, as is seen of ids.

    What does not pass need not be held against all that was given, which takes time to gather.
    """
    value = stated.value
    texts = trace.payload_texts
    holding = [text for text in texts if value in text]
    if holding and any(stands_in(value, text) for text in holding):
        return False
    if stated.kind == "id" and not stated.exact:
        prefix = prefix_of(value)
        return any(prefix in text for text in texts)
    return True


def _comparable(stated: Statement, rival: Rival) -> bool:
    match stated.kind:
        case "amount":
            return number_in(rival.value) is not None
        case "date":
            return bool(days_in(rival.value[:60]))
        case "name":
            return rival.value[:1].isupper() and " " in rival.value and rival.value.isascii()
        case "id":
            return len(rival.value) <= 100 and any(map(str.isdigit, rival.value))


def _is_known(stated: Statement, known: KnownText) -> bool:
    match stated.kind:
        case "amount":
            return not _COMPUTED.isdisjoint(stated.label) or _reckoned(stated.value, known)
        case "date":
            return not days_in(stated.value).isdisjoint(known.days)
        case "name":
            return all(word in known.folded for word in stated.value.casefold().split())
        case "id":
            return stands_in(stated.value.casefold(), known.folded)


def _reckoned(value: str, known: KnownText) -> bool:
    """Whether a number is small, known, a rounding of a known one, or made of two known ones."""
    number = number_in(value)
    if number is None or (number <= _SMALL and number == int(number)):
        return True
    cents = known.cents
    if len(cents) > _MOST_NUMBERS:  # too many to say that it was not computed
        return True
    wanted = round(number * 100)
    coarse = 50 if wanted % 100 == 0 else 5 if wanted % 10 == 0 else 0
    if any(abs(wanted - each) <= coarse for each in cents):
        return True
    return wanted in cents or any(_made_of(wanted, each, cents) for each in cents)


def _made_of(wanted: int, one: int, known: set[int]) -> bool:
    """Whether an amount is a sum, difference, multiple, product or percentage of a known one."""
    if wanted - one in known or wanted + one in known:
        return True
    if one <= 0:
        return False
    if wanted % one == 0 and wanted // one <= _SMALL:
        return True
    return _product(wanted, one, 100, known) or _product(wanted, one, 10_000, known)


def _product(wanted: int, one: int, scale: int, known: set[int]) -> bool:
    other = round(wanted * scale / one)
    return other in known and abs(one * other / scale - wanted) <= 0.5
