"""Which parts of a recording are the same when the same agent is asked again.

Free text is worded anew each time, and times and random ids are of one recording. Names, numbers,
and what the user or a tool said before are not.
"""

import re
from collections.abc import Sequence
from typing import Any

from evalwright.contracts.marks import MARK_START
from evalwright.scoring.checks.table import CHECKS
from evalwright.trace.model import Json, ToolCall, Trace, text_of
from evalwright.trace.pairing import pair_results

MOST_FACTS = 5
MOST_IN_ORDER = 12
_LONGEST = 80  # characters of a value that is worth comparing
_MOST_ITEMS = 20
_MOST_CALLS = 50  # whose arguments are looked at
_NAME = re.compile(r"[A-Za-z][\w.:/@-]{0,39}", re.ASCII)
_OF_ONE_TIME = re.compile(
    r"[0-9a-fA-F]{12,}|[0-9a-fA-F]{8}-[0-9a-fA-F-]{8,}"  # random ids
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\d{1,2}:\d\d:\d\d|\b1[5-9]\d{8}(?:\d{3})?\b",  # times
    re.ASCII,
)
_WORD = re.compile(r"[\w$€£#+-][\w.,:/#%€$-]*", re.ASCII)
_MARK = MARK_START.decode()
_DROPPED: Any = object()


def stable_part(value: Json, before: str) -> Json | None:
    """The part of a JSON object that stays; None if nothing does. `before` is what was said."""
    kept = _kept(value, before) if isinstance(value, dict) else _DROPPED
    return None if kept is _DROPPED else kept


def _kept(value: Json, before: str) -> Json:
    if isinstance(value, dict):
        members = {key: _kept(each, before) for key, each in value.items() if _MARK not in key}
        left = {key: each for key, each in members.items() if each is not _DROPPED}
        if not left:
            return _DROPPED
        if len(left) != 1 or left.keys().isdisjoint(CHECKS):
            return left
        return {"equals": left} if left == value else _DROPPED  # else it would be a check
    if isinstance(value, list):
        items = [_kept(each, before) for each in value[:_MOST_ITEMS]]
        return items if items and _DROPPED not in items and items == value else _DROPPED
    return value if _stays(value, before) else _DROPPED


def _stays(value: Json, before: str) -> bool:
    if value is None:
        return False
    if isinstance(value, bool):
        return True
    text = text_of(value)
    if not text.strip() or len(text) > _LONGEST or _MARK in text:
        return False
    if text in before:
        return True
    if _OF_ONE_TIME.search(text):
        return False
    return not isinstance(value, str) or _NAME.fullmatch(text) is not None


def calls_to_expect(calls: Sequence[ToolCall], trace: Trace) -> list[dict[str, Any]]:
    """Checks of the calls of an agent: in order, if one came after the result of the other."""
    calls = [call for call in calls if call.tool]
    if len(calls) > _MOST_CALLS:
        return [{"calls": tool} for tool in dict.fromkeys(call.tool for call in calls)]
    wanted = [_wanted(call, trace) for call in calls]
    if not wanted:
        return []
    distinct = [each for n, each in enumerate(wanted) if each not in wanted[:n]]
    if len(distinct) == 1:
        return [{"calls": distinct[0]}]
    in_a_row = [each for n, each in enumerate(wanted) if n == 0 or each != wanted[n - 1]]
    if len(in_a_row) <= MOST_IN_ORDER and _one_by_one(calls, trace):
        return [{"calls_in_order": in_a_row}]
    return [{"calls": each} for each in distinct]


def _wanted(call: ToolCall, trace: Trace) -> Any:
    args = stable_part(call.args, said_before(trace, call.index))
    return {"tool": call.tool, "args": args} if args else call.tool


def _one_by_one(calls: Sequence[ToolCall], trace: Trace) -> bool:
    """Whether each call has its result before the next one is made."""
    results = pair_results(trace)
    ends = [results.get(call.index) for call in calls]
    return all(
        end is not None and end.index < after.index
        for end, after in zip(ends, calls[1:], strict=False)
    )


def said_before(trace: Trace, index: int) -> str:
    """All that the user said, and tools answered, before an event."""
    said = [trace.prompt]
    said += [text_of(each.content) for each in trace.messages if each.role == "user"]
    said += [text_of(each.payload) for each in trace.results if each.index < index]
    said += [text_of(each.content) for each in trace.retrievals if each.index < index]
    return "\n".join(said)


def facts_in(answer: str, trace: Trace) -> list[str]:
    """Numbers, ids and names of an answer that tools gave; the user's own are easily repeated."""
    told = {word for text in trace.payload_texts for word in _words(text)}
    found = [
        word
        for word in _words(answer)
        if word in told
        and any(map(str.isdigit, word))
        and 1 < len(word) <= _LONGEST
        and not _OF_ONE_TIME.search(word)
    ]
    return found[:MOST_FACTS]


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(each.rstrip(".,:-/") for each in _WORD.findall(text)))
