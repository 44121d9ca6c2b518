"""The linter: which rules are asked for, and what they find in a library."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.prompt_result import Finding
from evalwright.prompts.document import Prompt
from evalwright.prompts.findings import Check, Fix, Hit, Rule
from evalwright.prompts.rules.catalogue import CATALOGUE
from evalwright.prompts.rules.duplicates import Library
from evalwright.prompts.rules.reading import read
from evalwright.prompts.rules.suppression import (
    WHOLE_FILE,
    IgnoreComment,
    may_suppress,
    names_rule,
    suppressions,
)

_REPEATED = "PE502"


class Selection(msgspec.Struct, frozen=True):
    """Which rules to apply: names, ids or the first characters of ids; none selected means all."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def rules(self) -> tuple[Rule, ...]:
        """The rules that are asked for; a name that means no rule is bad input."""
        wanted = _named("--select", self.select) if self.select else set(CATALOGUE_IDS)
        unwanted = _named("--ignore", self.ignore)
        return tuple(rule for rule in CATALOGUE if rule.id in wanted - unwanted)


ALL_RULES = Selection()


def selection(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> Selection:
    """A selection from what a user wrote: lists with commas; every name is checked."""
    chosen = Selection(_split(select), _split(ignore))
    chosen.rules()
    return chosen


def lint(prompts: Sequence[Prompt], selected: Selection = ALL_RULES) -> list[list[Finding]]:
    """What the rules find in each prompt, in the order of its lines."""
    linter = Linter(selected)
    return [linter.lint(prompt) for prompt in prompts]


class Linter:
    """Applies rules to the prompts of a library, one after the other."""

    def __init__(self, selected: Selection = ALL_RULES) -> None:
        self._checks = _checks(selected.rules())

    def lint(self, prompt: Prompt) -> list[Finding]:
        """What the rules find; who scores a prompt before the next is read shares its reading."""
        return list(_findings(prompt.text, _hits(prompt, self._checks)))


def safe_fixes(prompt: Prompt, selected: Selection = ALL_RULES) -> list[Fix]:
    """The changes that the rules offer for a prompt."""
    rules = [rule for rule in selected.rules() if rule.fixable]
    return [hit.fix for _, hit in _hits(prompt, _checks(rules)) if hit.fix is not None]


CATALOGUE_IDS = frozenset(rule.id for rule in CATALOGUE)


def _checks(rules: Iterable[Rule]) -> list[tuple[Rule, Check]]:
    """Rules with their checks; the one that compares prompts remembers those of this library."""
    library = Library()
    return [
        (rule, library.near_duplicate if rule.id == _REPEATED else rule.check) for rule in rules
    ]


def _hits(prompt: Prompt, checks: list[tuple[Rule, Check]]) -> list[tuple[Rule, Hit]]:
    found = [(rule, hit) for rule, check in checks for hit in check(prompt)]
    found.sort(key=lambda each: (each[1].offset, each[0].id, each[1].message))
    return _not_silenced(prompt, found) if may_suppress(prompt) else found


def _not_silenced(prompt: Prompt, found: list[tuple[Rule, Hit]]) -> list[tuple[Rule, Hit]]:
    by_line: dict[int, list[IgnoreComment]] = {}
    for each in suppressions(prompt):
        by_line.setdefault(each.line, []).append(each)

    def is_silenced(rule: Rule, hit: Hit) -> bool:
        line = read(prompt).line(hit.offset)
        near = (*by_line.get(WHOLE_FILE, ()), *by_line.get(line, ()))
        return any(each.covers(rule) for each in near)

    return [(rule, hit) for rule, hit in found if not is_silenced(rule, hit)]


def _findings(text: str, hits: Iterable[tuple[Rule, Hit]]) -> Iterator[Finding]:
    """The hits, which are in the order of their offsets, by line and column."""
    line = 1
    counted = 0
    for rule, hit in hits:
        line += text.count("\n", counted, hit.offset)
        counted = hit.offset
        column = counted - text.rfind("\n", 0, counted)
        yield Finding(rule.id, rule.severity, rule.criterion, line, column, hit.message)


def _split(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.strip() for name in names for part in name.split(",") if part.strip())


def _named(option: str, names: Iterable[str]) -> set[str]:
    return {rule.id for name in names for rule in _rules_called(option, name)}


def _rules_called(option: str, name: str) -> Iterator[Rule]:
    found = [rule for rule in CATALOGUE if names_rule(_spelled(name), rule)]
    if not found:
        raise BadInput(f"{option}: no rule is called “{name}”{_suggestion(name)}")
    yield from found


def _spelled(name: str) -> str:
    return name.upper() if name[:2].upper() == "PE" and name[2:].isdigit() else name.lower()


def _suggestion(name: str) -> str:
    known = [*(rule.name for rule in CATALOGUE), *sorted(CATALOGUE_IDS)]
    near = get_close_matches(_spelled(name), known, 1) or get_close_matches(name.upper(), known, 1)
    return f" (did you mean {near[0]}?)" if near else " (--list-rules shows all)"
