"""How many findings are right, and how many faults are found: per rule, repository, language.

Precision counts the findings that somebody judged; the share that nobody judged is shown next to
it. Recall counts the findings of the set that were judged right, and the places where its readers
missed a finding; the latter within one line.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from wild import Place, Record, Wild

_LOUD = ("error", "warning")
_NEAR = 1  # lines


def report(wild: Wild, *, show: bool = False) -> None:
    """Print the tables."""
    found = dict(wild.findings())
    loud = {place for place, each in found.items() if each.severity in _LOUD}
    print("findings: right of judged, unjudged; recall of what was judged right")
    _table(wild, loud, "errors and warnings", lambda _: "in all")
    _table(wild, set(found) - loud, "notes", lambda _: "in all")
    _table(wild, loud, "rule", lambda place: place.rule)
    _table(wild, set(found) - loud, "rule (notes)", lambda place: place.rule)
    _table(wild, loud, "repository", lambda place: wild.repository(place.file))
    _table(wild, loud, "language", lambda place: wild.language(place.file))
    _left_out(wild, loud)
    _recall(wild, found)
    if show:
        _list(wild, found)


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} = {100 * part / whole:.0f} %" if whole else "none"


def _table(wild: Wild, places: Iterable[Place], title: str, key: Callable[[Place], str]) -> None:
    right: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    unjudged: Counter[str] = Counter()
    for place in places:
        verdict = wild.verdict(place)
        unjudged[key(place)] += verdict is None
        judged[key(place)] += verdict is not None
        right[key(place)] += verdict is True
    print(f"\n{title}")
    for name in sorted(judged):
        share = _share(right[name], judged[name])
        print(f"  {name:40} right {share:16} unjudged {unjudged[name]}")


def _left_out(wild: Wild, places: set[Place]) -> None:
    """The precision without any one repository: it must not hang on a single one."""
    judged = [(wild.repository(each.file), wild.verdict(each)) for each in places]
    judged = [(name, verdict) for name, verdict in judged if verdict is not None]
    shares = []
    for left_out in {name for name, _ in judged}:
        rest = [verdict for name, verdict in judged if name != left_out]
        shares.append((100 * sum(rest) / max(1, len(rest)), left_out))
    if shares:
        share, name = min(shares)
        print(f"\nerrors and warnings with one repository left out: {share:.0f} % or more ({name})")


def _recall(wild: Wild, found: Iterable[Place]) -> None:
    spoken = set(found)
    wanted = [place for place in wild.of_the_set if wild.judged[place]]
    print("\nrecall of right findings")
    for name, key in (
        ("in all", lambda _: ""),
        ("rule", lambda place: place.rule),
        ("repository", lambda place: wild.repository(place.file)),
    ):
        whole = Counter(map(key, wanted))
        part = Counter(key(place) for place in wanted if place in spoken)
        print(f"  {name}")
        for each in sorted(whole):
            print(f"    {each:38} {_share(part[each], whole[each])}")
    missed = [each for each in wild.misses if not is_met(wild, each, spoken)]
    count = len(wild.misses)
    print(f"recall of noted misses: {_share(count - len(missed), count)}")
    both = len(wanted) + count
    met = sum(place in spoken for place in wanted) + count - len(missed)
    print(f"recall of both: {_share(met, both)}")


def is_met(wild: Wild, miss: Record, spoken: set[Place]) -> bool:
    """Whether a rule now speaks where one was missed, or a refused file is read."""
    file, line, rule = miss["file"], miss["line"], miss.get("rule")
    near = range(line - _NEAR, line + _NEAR + 1)
    if any(
        place.file == file
        and place.line in near
        and rule in (None, place.rule)
        and wild.verdict(place) is not False
        for place in spoken
    ):
        return True
    return "refused" in miss["what"] and wild.results[file].execution.status == "success"


def _list(wild: Wild, found: dict[Place, object]) -> None:
    for title, chosen in (
        ("wrong", lambda place: wild.verdict(place) is False),
        ("unjudged", lambda place: wild.verdict(place) is None),
    ):
        for place in sorted(filter(chosen, found)):
            each = found[place]
            print(title, place.rule, each.severity, f"{place.file}:{place.line}", each.message)
    for place in sorted(place for place in wild.of_the_set if wild.judged[place]):
        if place not in found:
            print("lost", place.rule, f"{place.file}:{place.line}")
    for miss in wild.misses:
        if not is_met(wild, miss, set(found)):
            print("missed", miss.get("rule"), f"{miss['file']}:{miss['line']}", miss["what"])
