"""Values in an answer that contradict what the tools said: ids, amounts, dates and names.

A value is a contradiction only when the results hold another one for the same thing, and when it
is nowhere in what the agent was given. A value that can be computed from known ones is not one.
"""

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import msgspec

from evalwright.comparison.stated_values import (
    Kind,
    Label,
    Statement,
    days_in,
    entities_in,
    first_value,
    hundredths_in,
    is_derived,
    label_of,
    number_in,
    prefix_of,
    same_shape,
    scalars,
    stands_in,
    statements,
)
from evalwright.trace.model import (
    GOOD_STATUSES,
    Trace,
    text_of,
)
from evalwright.trace.paired_calls import pair_results

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
_REACH = 200  # characters around a name in which a result is about it
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
                    near = text[max(0, place - _REACH) : place + len(entity) + _REACH]
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
