"""The linter: which rules are asked for, what they find in a library, and what they repair."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import UNSET

from evalwright.contracts.errors import BadInput
from evalwright.contracts.prompt_result import Finding
from evalwright.prompts.document import Prompt, UnfitPrompt
from evalwright.prompts.document_signs import DocumentKind
from evalwright.prompts.findings import Check, Fix, Hit, Rule
from evalwright.prompts.not_a_prompt import not_a_prompt
from evalwright.prompts.parse import parse_prompt
from evalwright.prompts.rules import task
from evalwright.prompts.rules.prompt_text import Reading
from evalwright.prompts.rules.rule_table import (
    CATALOGUE,
    WHOLE_FILE,
    IgnoreComment,
    ignore_comments,
    names_rule,
)

CATALOGUE_IDS = frozenset(rule.id for rule in CATALOGUE)
MOST_OF_ONE_RULE = 20  # findings in a file; the rest are counted
_ROUNDS = 10  # a repair can bring another to light, as a closed fence does for a heading below it


class Selection(msgspec.Struct, frozen=True):
    """Which rules to apply: names, ids or the first characters of ids; none selected means all."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def rules(self) -> list[Rule]:
        """The rules that are asked for; an unknown name is bad input."""
        wanted = {rule.id for name in self.select for rule in _rules_called("--select", name)}
        unwanted = {rule.id for name in self.ignore for rule in _rules_called("--ignore", name)}
        chosen = (wanted if self.select else CATALOGUE_IDS) - unwanted
        return [rule for rule in CATALOGUE if rule.id in chosen]


ALL_RULES = Selection()


def selection(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> Selection:
    """A selection from what a user wrote: lists with commas; every name is checked."""
    names = [
        tuple(part.strip() for each in given for part in each.split(",") if part.strip())
        for given in (select, ignore)
    ]
    chosen = Selection(*names)
    chosen.rules()
    return chosen


def _rules_called(option: str, name: str) -> Iterator[Rule]:
    is_id = name[:2].upper() == "PE" and name[2:].isdigit()
    spelled = name.upper() if is_id else name.lower()
    found = [rule for rule in CATALOGUE if names_rule(spelled, rule)]
    if not found:
        from difflib import get_close_matches

        known = [*(rule.name for rule in CATALOGUE), *sorted(CATALOGUE_IDS)]
        near = get_close_matches(spelled, known, 1) or get_close_matches(name.upper(), known, 1)
        remedy = f"did you mean {near[0]}?" if near else "--list-rules shows all"
        raise BadInput(f"{option}: no rule is called “{name}” ({remedy})")
    yield from found


class Linter:
    """Applies rules to the prompts of a library, one after the other."""

    def __init__(self, selected: Selection = ALL_RULES) -> None:
        self._checks: list[tuple[Rule, Check]] = [
            (rule, rule.check if rule.library_check is None else rule.library_check())
            for rule in selected.rules()
        ]

    def lint(self, prompts: Sequence[Prompt]) -> list[tuple[Reading, list[Finding]] | Exception]:
        """Each prompt as it is read and what the rules find in it, or what went wrong.

        Rule by rule rather than prompt by prompt: what a rule needs stays in the processor's
        cache, which saves a tenth to a fifth of the time.
        """
        faults: dict[int, Exception] = {}
        opened: dict[int, tuple[Reading, list[tuple[Rule, Hit]]]] = {}
        for at, prompt in enumerate(prompts):
            try:
                opened[at] = (Reading(prompt), [])
            except Exception as error:  # noqa: BLE001 - of this file, not of the others
                faults[at] = error
        for rule, check in self._checks:
            for at, (reading, hits) in opened.items():
                try:
                    if at not in faults and rule.is_about(reading):
                        hits += [(rule, hit) for hit in check(reading)]
                except Exception as error:  # noqa: BLE001
                    faults[at] = error
        return [
            faults[at] if at in faults else (opened[at][0], _findings(*opened[at]))
            for at in range(len(prompts))
        ]


def _findings(reading: Reading, found: list[tuple[Rule, Hit]]) -> list[Finding]:
    found.sort(key=lambda each: (each[1].offset, each[0].id, each[1].message))
    if comments := ignore_comments(reading):
        found = _not_silenced(reading, found, comments)
    text = reading.text
    findings = []
    line = 1
    counted = 0
    for rule, hit in _first_of_each(found):
        line += text.count("\n", counted, hit.offset)
        counted = hit.offset
        column = counted - text.rfind("\n", 0, counted)
        more = hit.more or UNSET
        place = (line, column)
        findings.append(Finding(rule.id, rule.severity, rule.criterion, *place, hit.message, more))
    return findings


def document_kind(reading: Reading) -> DocumentKind | None:
    """What a file is that is no prompt; a comment that silences PE201 in it says it is one."""
    found = not_a_prompt(reading)
    if found is None:
        return None
    comments = [each for each in ignore_comments(reading) if each.line == WHOLE_FILE]
    is_meant = any(each.covers(task.no_task) for each in comments)
    return None if is_meant else found


def lint(prompts: Sequence[Prompt], selected: Selection = ALL_RULES) -> list[list[Finding]]:
    """What the rules find in each prompt, in the order of its lines."""
    findings = []
    for outcome in Linter(selected).lint(prompts):
        if isinstance(outcome, Exception):
            raise outcome
        findings.append(outcome[1])
    return findings


def _first_of_each(found: list[tuple[Rule, Hit]]) -> list[tuple[Rule, Hit]]:
    """The first findings of each rule; the last of them says how many more there are."""
    counts = Counter(rule.id for rule, _ in found)
    if all(count <= MOST_OF_ONE_RULE for count in counts.values()):
        return found
    seen: Counter[str] = Counter()
    kept = []
    for rule, hit in found:
        seen[rule.id] += 1
        more = counts[rule.id] - MOST_OF_ONE_RULE
        if seen[rule.id] < MOST_OF_ONE_RULE or (seen[rule.id] == MOST_OF_ONE_RULE and more <= 0):
            kept.append((rule, hit))
        elif seen[rule.id] == MOST_OF_ONE_RULE:
            message = f"{hit.message} There are {more} more findings of {rule.id} in this file."
            kept.append((rule, msgspec.structs.replace(hit, message=message, more=more)))
    return kept


def _not_silenced(
    reading: Reading, found: list[tuple[Rule, Hit]], comments: list[IgnoreComment]
) -> list[tuple[Rule, Hit]]:
    by_line: dict[int, list[IgnoreComment]] = {}
    for each in comments:
        by_line.setdefault(each.line, []).append(each)

    def is_silenced(rule: Rule, hit: Hit) -> bool:
        near = (*by_line.get(WHOLE_FILE, ()), *by_line.get(reading.line(hit.offset), ()))
        return any(each.covers(rule) for each in near)

    return [(rule, hit) for rule, hit in found if not is_silenced(rule, hit)]


def safe_fixes(prompt: Prompt, selected: Selection = ALL_RULES) -> list[Fix]:
    """The changes that the rules offer for a prompt."""
    reading = Reading(prompt)
    rules = (each for each in selected.rules() if each.fixable and each.is_about(reading))
    found = [(rule, hit) for rule in rules for hit in rule.check(reading)]
    kept = _not_silenced(reading, found, ignore_comments(reading))
    return [hit.fix for _, hit in kept if hit.fix is not None]


def fix_prompt(prompt: Prompt, selected: Selection = ALL_RULES) -> str:
    """The text of a prompt with all safe changes made; fixing it again changes nothing."""
    for _ in range(_ROUNDS):
        text = apply_fixes(prompt.text, safe_fixes(prompt, selected))
        if text == prompt.text:
            break
        try:
            prompt = parse_prompt(text.encode(), prompt.path)
        except UnfitPrompt:
            break  # nothing would be left: the file held only invisible characters
    return prompt.text


def apply_fixes(text: str, fixes: Iterable[Fix]) -> str:
    """The text with all changes made; of two that overlap, the first one counts."""
    parts = []
    at = 0
    for fix in sorted(set(fixes), key=lambda fix: (fix.start, fix.end, fix.replacement)):
        if fix.start < at:
            continue
        parts += [text[at : fix.start], fix.replacement]
        at = fix.end
    return "".join([*parts, text[at:]])
