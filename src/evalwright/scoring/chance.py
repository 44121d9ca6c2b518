"""Is a change more than chance? How often each task passed on both sides decides.

If nothing has changed, the passes of a task fall on its runs of both sides by lot. So the number of
passes on the new side is a sum of hypergeometric numbers, one for each task, and how often it is so
far off is counted exactly. With one run on each side this is McNemar's test, with one task it is
Fisher's, and with both it is the exact test of Cochran, Mantel and Haenszel. Scores do not decide:
see "Which test decides" in docs/decisions.md.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import count as count_up
from math import comb, erfc, sqrt
from sys import float_info
from typing import NamedTuple

import msgspec

from evalwright.scoring.statistics import LEVEL, mcnemar, more_failures_needed, p_in_words

_EXACT_BITS = 4_000_000  # of the number that holds all ways; above, the normal limit is used
_MOST_NAMED = 5
_TELLING = 4  # runs on each side, of which a task that breaks is beyond chance: 2 / comb(8, 4)
_MORE_REPEATS = f"; {_TELLING} repeats on each side would show whether a task broke"


class Passes(NamedTuple):
    """How often a task passed on both sides, of how many runs."""

    baseline: int
    baseline_runs: int
    new: int
    new_runs: int

    def __str__(self) -> str:
        before = f"{self.baseline:,} of {self.baseline_runs:,}"
        return f"{before} → {self.new:,} of {self.new_runs:,}"

    @property
    def has_changed(self) -> bool:
        return self.baseline * self.new_runs != self.new * self.baseline_runs


class FallenTask(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A task that got worse by more than chance, by its repeats alone."""

    task_id: str
    baseline_passed: int
    baseline_runs: int
    new_passed: int
    new_runs: int
    p_value: float
    name: str = ""  # by which people know it, where that is not its id

    def __str__(self) -> str:
        passes = Passes(self.baseline_passed, self.baseline_runs, self.new_passed, self.new_runs)
        return f"{self.name or self.task_id}: {passes}, {p_in_words(self.p_value)}"


class ChangeTally(msgspec.Struct):
    """Collects how often tasks passed; the order does not matter."""

    tables: Counter[Passes] = msgspec.field(default_factory=Counter)
    fallen: list[tuple[str, Passes]] = []  # those that may be named

    def add(self, tasks: Iterable[tuple[str, Passes]]) -> None:
        for task_id, passes in tasks:
            if passes.baseline_runs and passes.new_runs:
                self.tables[passes] += 1
                if p_of_task(passes) < LEVEL and _excess(passes) < 0:
                    self.fallen.append((task_id, passes))

    def merge(self, other: "ChangeTally") -> None:
        self.tables.update(other.tables)
        self.fallen += other.fallen

    def verdict(self) -> "ChangeVerdict":
        totals = [
            sum(passes[place] * count for passes, count in self.tables.items())
            for place in range(4)
        ]
        p_value = _two_sided(*tails(self.tables))
        is_lower = sum(_excess(passes) * count for passes, count in self.tables.items()) < 0
        limit = 0.0
        values = {passes: p_of_task(passes) for passes in self.tables}
        for value in sorted({p_of_task(passes) for _, passes in self.fallen}):
            found = sum(self.tables[each] for each, p_value in values.items() if p_value <= value)
            expected = sum(
                count
                * chance_of_p(each.baseline_runs, each.new_runs, each.baseline + each.new, value)
                for each, count in self.tables.items()
            )
            if expected / found <= LEVEL:
                limit = value
        named = [
            FallenTask(task_id, *passes, values[passes])
            for task_id, passes in self.fallen
            if values[passes] <= limit
        ]
        return ChangeVerdict(
            tasks=sum(self.tables.values()),
            passes=Passes(*totals),
            changed=sum(count for passes, count in self.tables.items() if passes.has_changed),
            p_value=p_value,
            is_lower=is_lower,
            fallen=tuple(sorted(named, key=lambda each: (each.p_value, each.task_id))),
            remedy=self._remedy() if is_lower and p_value >= LEVEL else "",
        )

    def _remedy(self) -> str:
        if any((each.baseline_runs, each.new_runs) != (1, 1) for each in self.tables):
            broke = any(
                each.baseline == each.baseline_runs and not each.new for each in self.tables
            )
            few = any(min(each.baseline_runs, each.new_runs) < _TELLING for each in self.tables)
            return _MORE_REPEATS if broke and few else ""
        singles = ((1, 1, 0, 1), (0, 1, 1, 1), (1, 1, 1, 1))
        fell, rose, both = (self.tables[Passes(*each)] for each in singles)
        needed = more_failures_needed(fell, rose, both)
        if needed is None:
            enough = next(each for each in count_up(fell) if mcnemar(each, rose) < LEVEL)
            told = f"{enough:,} would have to fail (see evalwright power)"
            return f"; so few tasks cannot tell without repeats: {told}"
        return f"; {needed:,} more failing {'task' if needed == 1 else 'tasks'} would be beyond it"


class ChangeVerdict(msgspec.Struct, frozen=True):
    """What a pair comes to: overall, and the tasks that got worse by themselves."""

    tasks: int
    passes: Passes  # of all tasks
    changed: int  # tasks that passed more or less often
    p_value: float
    is_lower: bool
    fallen: tuple[FallenTask, ...] = ()
    remedy: str = ""  # what would have shown more
    remark: str = ""  # on how the sides were scored

    def named(self, name_of: Callable[[str], str]) -> "ChangeVerdict":
        if not self.fallen:
            return self
        names = ((each, name_of(each.task_id)) for each in self.fallen)
        fallen = [
            msgspec.structs.replace(each, name="" if name == each.task_id else name)
            for each, name in names
        ]
        return msgspec.structs.replace(self, fallen=tuple(fallen))

    @property
    def is_worse(self) -> bool:
        return bool(self.fallen) or (self.is_lower and self.p_value < LEVEL)

    @property
    def is_better(self) -> bool:
        return not self.fallen and not self.is_lower and self.p_value < LEVEL

    @property
    def sentence(self) -> str:
        return " ".join(filter(None, (self._comparison, self.remark)))

    @property
    def _comparison(self) -> str:
        if not self.tasks:
            return "Nothing was compared: no task has a result on both sides."
        passes = self.passes
        if not self.changed:
            both = f"{passes.new:,} of {passes.new_runs:,} passed on both sides"
            same = passes.baseline_runs == passes.new_runs
            return f"No verdict changed: {both if same else f'{passes} passed'}."
        is_clear = self.p_value < LEVEL
        overall = "Within chance"
        if is_clear:
            overall = "Worse beyond chance" if self.is_lower else "Better beyond chance"
        found = f"{overall}: {passes} passed ({p_in_words(self.p_value)})"
        if not self.fallen:
            return f"{found}{self.remedy}."
        if not (is_clear and self.is_lower):
            count = f"{len(self.fallen):,} of {self.tasks:,} tasks"
            found = f"Worse beyond chance in {count}. Overall {found[0].lower()}{found[1:]}"
        named = "; ".join(map(str, self.fallen[:_MOST_NAMED]))
        more = len(self.fallen) - _MOST_NAMED
        noun = "Task" if len(self.fallen) == 1 else "Tasks"
        return f"{found}. {noun} {named}{f' and {more:,} more' if more > 0 else ''}."


def change_verdict(
    tasks: Mapping[str, Passes], name_of: Callable[[str], str] = str
) -> ChangeVerdict:
    """What is to be said of a pair, by how often each of its tasks passed."""
    tally = ChangeTally()
    tally.add(tasks.items())
    return tally.verdict().named(name_of)


def tails(tables: Mapping[Passes, int]) -> tuple[float, float]:
    """How likely chance gives so few passes on the new side, or fewer; and so many, or more."""
    kinds: Counter[tuple[int, int, int]] = Counter()
    observed = 0
    for passes, count in tables.items():
        baseline, baseline_runs, new, new_runs = passes
        total = baseline + new
        if 0 < total < baseline_runs + new_runs:  # else nothing is left to chance
            kinds[baseline_runs, new_runs, total] += count
            observed += count * (new - max(0, total - baseline_runs))
    if kinds.keys() <= {(1, 1, 1)}:
        fell = kinds[1, 1, 1] - observed
        p_value = mcnemar(fell, observed)
        half = p_value / 2
        return (half, 1 - half) if observed < fell else (1 - half, half)
    ways = {kind: _ways(*kind) for kind in kinds}
    bits = sum(sum(ways[kind]).bit_length() * count for kind, count in kinds.items())
    degree = sum((len(ways[kind]) - 1) * count for kind, count in kinds.items())
    if bits * degree > _EXACT_BITS:
        mean = variance = 0.0
        for kind, count in kinds.items():
            total = sum(ways[kind])
            first = sum(place * number for place, number in enumerate(ways[kind])) / total
            second = sum(place**2 * number for place, number in enumerate(ways[kind])) / total
            mean += count * first
            variance += count * (second - first**2)
        scale = sqrt(2 * variance)
        return erfc((mean - observed - 0.5) / scale) / 2, erfc((observed - mean - 0.5) / scale) / 2
    width = bits // 8 + 1  # bytes that hold the number of all ways
    all_ways = 1
    for kind, count in kinds.items():
        one = sum(number << (8 * width * place) for place, number in enumerate(ways[kind]))
        all_ways *= one**count
    held = all_ways.to_bytes(width * (degree + 1), "little")
    counts = [int.from_bytes(held[at : at + width], "little") for at in range(0, len(held), width)]
    total = sum(counts)
    return sum(counts[: observed + 1]) / total, sum(counts[observed:]) / total


def _ways(baseline_runs: int, new_runs: int, total: int) -> list[int]:
    fewest, most = max(0, total - baseline_runs), min(total, new_runs)
    return [
        comb(new_runs, new) * comb(baseline_runs, total - new) for new in range(fewest, most + 1)
    ]


def _two_sided(lower: float, upper: float) -> float:
    return min(1.0, max(2 * min(lower, upper), float_info.min))


def _excess(passes: Passes) -> Fraction:
    runs = passes.baseline_runs + passes.new_runs
    return passes.new - Fraction((passes.baseline + passes.new) * passes.new_runs, runs)


@lru_cache(maxsize=4096)
def p_of_task(passes: Passes) -> float:
    """Fisher's exact test, twice the smaller tail."""
    return _two_sided(*tails({passes: 1}))


@lru_cache(maxsize=4096)
def chance_of_p(baseline_runs: int, new_runs: int, total: int, value: float) -> float:
    """How likely so many passes fall on the runs in a way that is as rare as `value`, or rarer."""
    ways = _ways(baseline_runs, new_runs, total)
    fewest = max(0, total - baseline_runs)
    rare = [
        number
        for new, number in enumerate(ways, fewest)
        if p_of_task(Passes(total - new, baseline_runs, new, new_runs)) <= value
    ]
    return sum(rare) / sum(ways)
