"""Is a value within another one? Each part of what is expected may itself be a check."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, Protocol

from evalwright.contracts.jsonvalue import child, json_equal
from evalwright.scoring.checks.base import (
    AnswerCheck,
    Ask,
    CannotTell,
    CodeAsk,
    EmbeddingAsk,
    Examined,
    JudgeAsk,
    Preparing,
    RefusedCheck,
)
from evalwright.scoring.checks.json_paths import ABSENT, value_at
from evalwright.scoring.checks.mismatch import told

# Pairs of what is wanted of a list and its items that are looked at; one takes microseconds.
MOST_PAIRS = 2_000_000
_LONG = 64  # items of a list that is remembered


class WantedPart(Protocol):
    """What is expected of a value, or of a part of it; other fields and items do not matter."""

    @property
    def asks(self) -> Sequence[Ask]: ...

    def fits(self, value: Any, examined: Examined) -> bool: ...

    def problem(self, value: Any, examined: Examined) -> str: ...


def prepare_subset(
    wanted: Any, preparing: Preparing, path: str, shown_path: str = "$"
) -> WantedPart:
    """How to tell whether a value has all that is wanted."""
    if preparing.is_check(wanted):
        return _WantedCheck(wanted, preparing, path, shown_path)
    if isinstance(wanted, dict):
        return _WantedObject(wanted, preparing, path, shown_path)
    if isinstance(wanted, list):
        return _WantedItems(wanted, preparing, path, shown_path)
    return _WantedLiteral(wanted, shown_path)


_OF_THE_WHOLE: dict[type[Ask], tuple[str, str]] = {
    JudgeAsk: ("judge", "say in the criterion which part is meant"),
    CodeAsk: ("python", "the function is given `output` and `calls`, and finds the part there"),
    EmbeddingAsk: ("similar by embedding", "a part is compared with by: rouge_l or edit"),
}


def nested_in_part(document: Any, preparing: Preparing, path: str) -> AnswerCheck:
    """A check of a part of an answer; what others are asked is about the whole of it."""
    prepared = preparing.nested(document, path)
    if prepared.asks:
        name, remedy = _OF_THE_WHOLE[type(prepared.asks[0])]
        message = f"{name} looks at the whole answer, not at a part of it"
        raise RefusedCheck(message, f"write it as a check of its own; {remedy}", path)
    return prepared


class _WantedLiteral:
    asks: Sequence[Ask] = ()

    def __init__(self, wanted: Any, shown_path: str) -> None:
        self.wanted = wanted
        self._path = shown_path

    def fits(self, value: Any, _examined: Examined) -> bool:
        return value is not ABSENT and json_equal(value, self.wanted)

    def problem(self, value: Any, _examined: Examined) -> str:
        return _other(self._path, told(self.wanted), value)


class _WantedCheck:
    def __init__(self, wanted: Any, preparing: Preparing, path: str, shown_path: str) -> None:
        try:
            self._prepared = nested_in_part(wanted, preparing, path)
        except RefusedCheck as refused:
            literal = "or, if it is meant as it stands, {equals: …}"
            raise RefusedCheck(
                refused.message, "; ".join(filter(None, (refused.remedy, literal))), refused.path
            ) from None
        self.asks = self._prepared.asks
        self._path = shown_path

    def fits(self, value: Any, examined: Examined) -> bool:
        if value is ABSENT:
            return False
        return self._prepared.outcome(examined.with_part(value)).passed

    def problem(self, value: Any, examined: Examined) -> str:
        if value is ABSENT:
            return f"{self._path}: missing"
        return f"{self._path}: {self._prepared.outcome(examined.with_part(value)).reason}"


class _WantedObject:
    def __init__(
        self, wanted: dict[str, Any], preparing: Preparing, path: str, shown_path: str
    ) -> None:
        self._members = {
            key: prepare_subset(each, preparing, child(path, key), child(shown_path, key))
            for key, each in wanted.items()
        }
        self.asks = [ask for each in self._members.values() for ask in each.asks]
        self._path = shown_path

    @cached_property
    def marks(self) -> "list[tuple[tuple[str, ...], _Key]]":
        """Where it has a literal, and which: by that, objects are found in a list."""
        found: list[tuple[tuple[str, ...], _Key]] = []
        for name, each in self._members.items():
            if isinstance(each, _WantedLiteral):
                found.append(((name,), _key(each.wanted)))
            elif isinstance(each, _WantedObject):
                found += [((name, *path), key) for path, key in each.marks]
        return found

    def fits(self, value: Any, examined: Examined) -> bool:
        return isinstance(value, dict) and all(
            each.fits(value.get(key, ABSENT), examined) for key, each in self._members.items()
        )

    def problem(self, value: Any, examined: Examined) -> str:
        if not isinstance(value, dict):
            return _other(self._path, "an object", value)
        parts = ((each, value.get(key, ABSENT)) for key, each in self._members.items())
        return next(
            each.problem(part, examined) for each, part in parts if not each.fits(part, examined)
        )


class _WantedItems:
    """A list with these items, in any order, each of which stands for one that is wanted."""

    def __init__(self, wanted: list[Any], preparing: Preparing, path: str, shown_path: str) -> None:
        self._wanted = wanted
        self._items = [
            prepare_subset(each, preparing, f"{path}[{n}]", shown_path)
            for n, each in enumerate(wanted)
        ]
        self.asks = [ask for each in self._items for ask in each.asks]
        self._path = shown_path

    def fits(self, value: Any, examined: Examined) -> bool:
        if not isinstance(value, list | tuple):
            return False
        return _PairedItems(self._items, value, examined).unpaired() is None

    def problem(self, value: Any, examined: Examined) -> str:
        if not isinstance(value, list | tuple):
            return _other(self._path, "a list", value)
        pairing = _PairedItems(self._items, value, examined)
        number = pairing.unpaired()
        assert number is not None
        wanted = told(self._wanted[number])
        count = pairing.count_fitting(number)
        if not count:
            return f"{self._path}: no item is {wanted}"
        alike = sum(json_equal(each, self._wanted[number]) for each in self._wanted)
        if alike > count:
            return f"{self._path}: {alike} items are to be {wanted}, got {count}"
        others = "the item that is stands" if count == 1 else f"the {count} that are stand"
        return f"{self._path}: no item is left to be {wanted}: {others} for others that are wanted"


_Key = tuple[bool, Any]


def _key(literal: Any) -> _Key:
    """The same for literals that are equal as JSON: 1 and 1.0 are, 1 and true are not."""
    return isinstance(literal, bool), literal


class ItemIndex:
    """The items of a list, and where to look for one without comparing them all."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items
        self._marked: dict[tuple[str, ...], dict[_Key, list[int]]] = {}

    @classmethod
    def of(cls, items: Sequence[Any], examined: Examined) -> "ItemIndex":
        """A list in an answer; a long one is remembered, as many checks may look into it."""
        return examined.once(_indexed, _Same(items)) if len(items) > _LONG else cls(items)

    def possible(self, wanted: WantedPart) -> Sequence[int]:
        if isinstance(wanted, _WantedLiteral):
            return self._with_mark((), _key(wanted.wanted))
        if isinstance(wanted, _WantedObject) and wanted.marks:
            return min((self._with_mark(*mark) for mark in wanted.marks), key=len)
        return range(len(self.items))

    def _with_mark(self, path: tuple[str, ...], key: _Key) -> Sequence[int]:
        if path not in self._marked:
            marked = self._marked[path] = {}
            for number, item in enumerate(self.items):
                value, _ = value_at(item, path)
                if value is not ABSENT and not isinstance(value, dict | list | tuple):
                    marked.setdefault(_key(value), []).append(number)
        return self._marked[path].get(key, ())


class _Same(NamedTuple):
    """A list that is the same only if it is this one."""

    items: Sequence[Any]

    def __hash__(self) -> int:
        return id(self.items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.items is self.items


def _indexed(_examined: Examined, same: _Same) -> ItemIndex:
    return ItemIndex(same.items)


class _PairedItems:
    """Finds for each thing that is wanted an item of its own.

    Whatever was paired first gives way where that helps: 2 and {number: …} both find an item in
    [2, 3].
    """

    def __init__(
        self,
        wanted: Sequence[WantedPart],
        items: Sequence[Any],
        examined: Examined,
    ) -> None:
        self._wanted = wanted
        self._items = items
        self._examined = examined
        self._left = MOST_PAIRS
        listed = ItemIndex.of(items, examined)
        self._candidates = [listed.possible(each) for each in wanted]
        self._paired: dict[int, int] = {}  # by item: what it stands for
        self._known: dict[int, bool] = {}

    def unpaired(self) -> int | None:
        """The number of something that finds no item, or None."""
        last = 0
        for number in sorted(range(len(self._wanted)), key=lambda n: len(self._candidates[n])):
            place = self._free_place(number, last)
            if place is not None:
                self._paired[place] = number
                last = place
            elif not self._exchange(number):
                return number
        return None

    def count_fitting(self, number: int) -> int:
        """How many items fit what is wanted, whether or not they stand for something else."""
        return sum(self._fits(number, place) for place in self._candidates[number])

    def _free_place(self, number: int, last: int) -> int | None:
        """A free item that fits, often beside the last one: two lists tend to have one order."""
        possible = self._candidates[number]
        middle = bisect_left(possible, last)
        for place in chain(possible[max(0, middle - 1) : middle + 2], possible):
            self._spend()
            if place not in self._paired and self._fits(number, place):
                return place
        return None

    def _exchange(self, number: int) -> bool:
        """Find an item by letting others take another one: the shortest way to a free one."""
        came_from: dict[int, tuple[int, int]] = {}  # by item: who takes it, and which it leaves
        waiting, seen = [(number, -1)], set[int]()
        for taking, left in waiting:
            possible = self._candidates[taking]
            if isinstance(self._wanted[taking], _WantedLiteral):  # equal ones have the same items
                if id(possible) in seen:
                    continue
                seen.add(id(possible))
            for place in possible:
                self._spend()
                if place in came_from or not self._known_to_fit(taking, place):
                    continue
                came_from[place] = taking, left
                if place in self._paired:
                    waiting.append((self._paired[place], place))
                    continue
                self._shift(place, came_from)
                return True
        return False

    def _shift(self, free: int, came_from: dict[int, tuple[int, int]]) -> None:
        place = free
        while place != -1:
            self._paired[place], place = came_from[place]

    def _known_to_fit(self, number: int, place: int) -> bool:
        key = number * len(self._items) + place
        if key not in self._known:
            self._known[key] = self._fits(number, place)
        return self._known[key]

    def _fits(self, number: int, place: int) -> bool:
        wanted = self._wanted[number]
        if isinstance(wanted, _WantedLiteral):
            return True
        return wanted.fits(self._items[place], self._examined)

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise CannotTell(
                f"of two long lists more than {MOST_PAIRS:,} pairs would have to be compared: "
                "give what is wanted a field that tells its item from the others"
            )


def _other(path: str, wanted: str, value: Any) -> str:
    if value is ABSENT:
        return f"{path}: missing, expected {wanted}"
    return f"{path}: expected {wanted}, got {told(value)}"
