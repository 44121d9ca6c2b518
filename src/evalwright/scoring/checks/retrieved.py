"""`retrieved`: the documents that the agent retrieved, by their ids."""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from evalwright.scoring.checks.base import (
    AnswerCheck,
    CannotTell,
    CheckOutcome,
    Examined,
    Preparing,
    RefusedCheck,
    calls_not_observed,
)
from evalwright.scoring.checks.quotes import named
from evalwright.trace.importers.values import first_identifier
from evalwright.trace.model import RETRIEVAL

Ids: TypeAlias = Annotated[list[str | int], Meta(min_length=1)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
_OWN_ID = ("id", "doc_id", "document_id", "document.id", "file_id", "chunk_id")
_LISTS_OF_IDS = ("ids", "doc_ids")
_NOTHING_OBSERVED = (
    "no retrieval was observed: tell of it with `task.record_retrieval`, or name the `tool` whose "
    "results have ids"
)
_ROUNDING = 1e-9


class Retrieved(AnswerCheck):
    """The agent retrieved the documents with these `ids`. Of the first `at` documents, or of all,
    `recall`, `precision`, `mrr` (1 over the rank of the first of them) and `ndcg` (by `gains`, 1
    unless given) are at least what is given; without any of these, recall is 1. The results are
    those of one `tool`; else of what was told as a retrieval, or of all tools that gave ids.
    """

    ids: Ids
    gains: dict[str, Annotated[float, Meta(gt=0)]] = {}
    at: Annotated[int, Meta(ge=1)] | None = None
    tool: str | None = None
    recall: Share | None = None
    precision: Share | None = None
    mrr: Share | None = None
    ndcg: Share | None = None

    example = "retrieved: {ids: [refund-policy], recall: 0.8, at: 5}"
    cause = "missing_required_data"

    @cached_property
    def bars(self) -> dict[str, float]:
        given = {name: getattr(self, name) for name in ("recall", "precision", "mrr", "ndcg")}
        return {name: bar for name, bar in given.items() if bar is not None} or {"recall": 1.0}

    @cached_property
    def wanted(self) -> dict[str, float]:
        return {str(each): self.gains.get(str(each), 1.0) for each in self.ids}

    @classmethod
    def of(cls, argument: Any, preparing: Preparing) -> AnswerCheck:
        made = super().of(argument, preparing)
        assert isinstance(made, cls)
        if unknown := [each for each in made.gains if each not in made.wanted]:
            raise RefusedCheck(f"{named(unknown)} is not among `ids`", "add it there", "$.gains")
        return made

    def evaluate(self, examined: Examined) -> CheckOutcome:
        found = retrieved_ids(examined, self.tool)[: self.at]
        measured = measure(found, self.wanted, self.at)
        score = math.fsum(measured[each] for each in self.bars) / len(self.bars)
        low = [name for name, bar in self.bars.items() if measured[name] < bar - _ROUNDING]
        said = [f"{name} {measured[name]:.4g}, at least {self.bars[name]:g} wanted" for name in low]
        known = {*found}
        if low and (missed := [each for each in self.wanted if each not in known]):
            among = "" if self.at is None else f" among the first {self.at}"
            said.append(f"not retrieved{among}: {named(missed)}")
        expected = {"ids": self.ids, **self.bars} | ({} if self.at is None else {"at": self.at})
        return CheckOutcome(not low, score, expected, found, "; ".join(said))


def measure(found: Sequence[str], gains: dict[str, float], at: int | None) -> dict[str, float]:
    """How good a ranking is, each document in it once."""
    ranks = [rank for rank, each in enumerate(found, 1) if each in gains]
    best = sorted(gains.values(), reverse=True)[:at]
    ideal = math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(best, 1))
    gained = math.fsum(gains[found[rank - 1]] / math.log2(rank + 1) for rank in ranks)
    return {
        "recall": len(ranks) / len(gains),
        "precision": len(ranks) / len(found) if found else 0.0,
        "mrr": 1 / ranks[0] if ranks else 0.0,
        "ndcg": gained / ideal,
    }


def retrieved_ids(examined: Examined, tool: str | None = None) -> list[str]:
    """The ids of what was retrieved, each once, the first first; raises `CannotTell`."""
    if unobserved := calls_not_observed(examined):
        raise CannotTell(unobserved)
    calls = [each for each in examined.calls if each.tool == (tool or RETRIEVAL)]
    if not calls and tool is None:
        calls = [each for each in examined.calls if next(ids_in(each.result), None) is not None]
        if not calls:
            raise CannotTell(_NOTHING_OBSERVED)
    answered = [each for each in calls if each.is_ok]
    found = [
        each
        for call in answered
        for each in ids_in(call.result, are_ids=call.tool == RETRIEVAL or tool is not None)
    ]
    if calls and not found:
        if not answered:
            raise CannotTell(f"no result of {calls[0].tool} was observed")
        if any(each.result not in (None, [], {}, "") for each in answered):
            raise CannotTell(f"what {calls[0].tool} returned has no ids")
    return list(dict.fromkeys(found))


def ids_in(value: Any, *, are_ids: bool = False) -> Iterator[str]:
    """The ids of the documents in a result; `are_ids`: texts in a list are ids themselves."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return
    if isinstance(value, list):
        for each in value:
            if are_ids and isinstance(each, str | int) and not isinstance(each, bool):
                yield str(each)
            elif isinstance(each, list | dict):
                yield from ids_in(each, are_ids=are_ids)
    elif isinstance(value, dict):
        if (own := first_identifier(value, *_OWN_ID)) is not None:
            yield own
            return
        listed = [value[name] for name in _LISTS_OF_IDS if isinstance(value.get(name), list)]
        for each in listed or value.values():
            yield from ids_in(each, are_ids=bool(listed))
