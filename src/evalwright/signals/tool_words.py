"""Words that say what a tool does."""

from functools import lru_cache
from itertools import pairwise

import msgspec
import re2

from evalwright.signals.user_request import ENDINGS, Deed
from evalwright.signals.word_tables import word_tables

_LONGEST_NAME = 120

_TABLES = word_tables(__file__)
for _row in ("reading", "reading anywhere"):
    _TABLES["classes"][_row] += _TABLES["reading abroad"]["any"]
_CLASSES_OF_STEMS: dict[str, set[str]] = {}
for _class, _stems in _TABLES["classes"].items():
    for _stem in _stems:
        _CLASSES_OF_STEMS.setdefault(_stem, set()).add(_class)

# What two words say together: `roll_back`, `power_off`.
_HALTING_PAIRS = frozenset(
    [
        ("roll", "back"), ("shut", "down"), ("power", "off"), ("power", "down"), ("turn", "off"),
        ("take", "down"), ("force", "push"), ("factory", "reset"), ("fail", "over"),
    ]
)  # fmt: skip
_HALTING_ALONE = frozenset(["shutdown", "reboot", "rollback", "poweroff"])
# What is done to one thing, where the same verb does something harmless to another.
_DONE_TO: dict[Deed, dict[str, str]] = {
    "money": {"charge": "card customer account client payment"},
    "destroy": {"format": "disk drive volume partition", "reset": "database db"},
}
_SORTING = frozenset(["by", "asc", "desc", "in", "from", "of"])

# `order_get`, `transfer_list`; and `quote_accept`, `views_drop`.
_THINGS_TOO, _READ_THINGS = map(frozenset, _TABLES["things"].values())
_ONLY_READ = frozenset(["get", "show", "fetch", "find", "describe", "read", "retrieve"])
_NAMING_DEEDS = ("ion", "ment", "al", "ing")
_JOINED = frozenset(["and", "or", "then"])

_SPLIT = re2.compile(r"[A-Z]+(?:[a-z0-9]+|\b)|[a-z0-9]+|[A-Z]")


class ToolProfile(msgspec.Struct, frozen=True):
    """What the name of a tool says of it.

    It only looks, it changes things, it runs code, or it stores what is to be remembered.
    """

    words: tuple[str, ...]
    reads: bool
    changes: bool
    runs: bool
    stores: bool
    deeds: frozenset[Deed]


def words_of(name: str) -> tuple[str, ...]:
    """The words of an identifier in lower case: snake, camel, dots and dashes alike."""
    return _split(name[:_LONGEST_NAME])


@lru_cache(maxsize=8192)
def _split(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _SPLIT.findall(name))


def is_of(class_name: str, word: str) -> bool:
    """Whether a word belongs to one of the word classes."""
    return class_name in _classes_of(word)


@lru_cache(maxsize=4096)
def _classes_of(word: str) -> frozenset[str]:
    """The word classes of a word in lower case: of each stem that it continues by an ending."""
    stems = (word[: len(word) - len(ending)] for ending in ENDINGS if word.endswith(ending))
    return frozenset().union(*(_CLASSES_OF_STEMS.get(stem, ()) for stem in stems))


def profile(tool: str) -> ToolProfile:
    """What the name of a tool says of it."""
    return _profile(tool[:_LONGEST_NAME])


@lru_cache(maxsize=4096)
def _profile(tool: str) -> ToolProfile:
    words = words_of(tool)
    # `deleted_users` and `approved_refunds` are things: nobody is deleted, nothing is refunded.
    things = 2 if words and _is_participle(words[0]) and words[1:] and _is_thing(words[1]) else 0
    acting = tuple(word for word in words[things:] if not _is_participle(word))
    has = set().union(*map(_classes_of, acting))
    reads = bool(words) and _reads(words) and not _opens_entry(words)
    deeds = _deeds(acting, has) if acting and not reads else set()
    stores = bool(words) and is_of("remembering", words[0])
    return ToolProfile(words, reads, "changing" in has, "running" in has, stores, frozenset(deeds))


def _reads(words: tuple[str, ...]) -> bool:
    """`get_orders`, `orders_get`, `shop.refunds.list`, `order_status`; but not `delete_list`."""
    is_thing = words[0] in _READ_THINGS or (len(words[0]) > 3 and words[0].endswith("s"))
    is_verb = not (_is_participle(words[0]) or (is_thing and _is_deed(words[-1])))
    if is_of("reading", words[0]) and is_verb:
        return _JOINED.isdisjoint(words) or not any(map(_is_deed, words[1:]))
    deeds = [word for word in words if _is_deed(word)]
    if deeds and _JOINED.isdisjoint(words) and is_of("reading", words[-1]):
        # `deletion_requests_search`; and what only is a verb: `termination_rule_show`.
        return words[-1] in _ONLY_READ or all(word.endswith(_NAMING_DEEDS) for word in deeds)
    if deeds:
        return False
    if is_of("reading", words[-1]) and words[-1] != "open":
        return True
    return is_of("told", words[-1]) or any(is_of("reading anywhere", word) for word in words)


def _is_participle(word: str) -> bool:
    return word.endswith("ed") and word not in _CLASSES_OF_STEMS


def _is_thing(word: str) -> bool:
    return word in _THINGS_TOO or word.removesuffix("s") in _THINGS_TOO


@lru_cache(maxsize=4096)
def _is_deed(word: str) -> bool:
    """Whether a word in a name is a verb for something that is done, and hardly a thing."""
    if _is_thing(word):
        return False
    if word.endswith(("ed", "ings", "ions", "ments", "als")):
        return False
    return not _classes_of(word).isdisjoint(_DOING)


_DOERS = """changing stopping moving paying booking committing halting destroying discarding harming
permitting rising running connecting sending"""
_DOING = frozenset(_DOERS.split())


def _deeds(words: tuple[str, ...], has: set[str]) -> set[Deed]:
    names_policy = "policy" in has or ("system" in words and "prompt" in words)
    rules: dict[Deed, bool] = {
        "money": "paying" in has or _moves_money(words),
        "commitment": _commits(words),
        "destroy": "destroying" in has,
        "discard": "discarding" in has,
        "disrupt": _disrupts(words) or _opens_entry(words),
        "harm": "harming" in has,
        "permission": _permits(words, has),
        "connect": "connecting" in has and "connector" in has,
        "policy": ("changing" in has and names_policy) or ("stopping" in has and "log" in has),
        "remember": "remembering" in has and not has & {"destroying", "discarding"},
        "send": "sending" in has,
        "download": "downloading" in has,
    }
    found: set[Deed] = {deed for deed, holds in rules.items() if holds}
    for deed, things in _DONE_TO.items():
        if not set(words[1:]).isdisjoint(things.get(words[0], "").split()):
            found.add(deed)
    if "protecting" in has:
        found -= {"harm", "destroy"}
    if len(words) > 1 and all(is_of("passing", word) for word in words[1:]):
        found -= {"discard", "destroy"} if words[0] == "drop" else {"discard"}
    return found


def _commits(words: tuple[str, ...]) -> bool:
    """`book_flight`, `place_order`; but not `order_by_date`."""
    if is_of("booking", words[0]):
        return _SORTING.isdisjoint(words[1:2])
    for verb, rest in ((words[0], words[1:]), (words[-1], words[:-1])):
        if is_of("committing", verb) and any(is_of("commitment", word) for word in rest):
            return True
    return False


def _disrupts(words: tuple[str, ...]) -> bool:
    """Something that runs is stopped or changed, or somebody is shut out."""
    if words[0] in _HALTING_ALONE or not _HALTING_PAIRS.isdisjoint(pairwise(words)):
        return True
    rest = words[1:] if is_of("halting", words[0]) else words[:-1]
    if rest == words[:-1] and not is_of("halting", words[-1]):
        return False
    return any(is_of("machine", word) or is_of("person", word) for word in rest)


def _opens_entry(words: tuple[str, ...]) -> bool:
    return words[0] == "open" and any(is_of("entry", word) for word in words[1:])


def _moves_money(words: tuple[str, ...]) -> bool:
    moved = {word for word in words if is_of("money", word)}
    return bool(moved) and any(is_of("moving", word) for word in words if {word} != moved)


def _permits(words: tuple[str, ...], has: set[str]) -> bool:
    if is_of("permitting", words[0]):
        return True
    if "permission" in has and (has & {"changing", "rising"} or words[0] == "transfer"):
        return True
    # `add_user_to_team`, `create_account`: whoever is let in can act from then on
    return words[0] in {"add", "create", "invite"} and len(words) > 1 and is_of("account", words[1])
