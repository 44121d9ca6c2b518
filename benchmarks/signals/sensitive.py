"""How well secrets and personal data are found: precision, recall, F1 and false positives per set.

    python benchmarks/signals/sensitive.py [DIRECTORY]     default: ../shared/data/agent-traces

A labelled text counts as found when a finding of the right family overlaps the labelled value, or,
where no value is labelled, when there is any; an innocent text counts as falsely found when there
is any finding of that family at all.
"""

import gzip
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from evalwright.signals.sensitive import scan

DEFAULT = Path(__file__).resolve().parents[3] / "shared" / "data" / "agent-traces"
SETS = (
    ("secrets", "secret", "secrets/secrets.jsonl.gz", "secret"),
    ("personal data", "pii", "pii/pii.jsonl.gz", "value"),
)


def report(data: Path) -> None:
    for name, family, path, field in SETS:
        records = read(data / path)
        outcomes = [(record, outcome(record, family, field)) for record in records]
        print(f"\n{name}: {len(records)} texts of {path}")
        print(f"  {'':28} texts precision  recall      F1  false positives")
        line("all", (result for _, result in outcomes))
        for half in (0, 1):
            line(f"half {half + 1} of 2", (result for _, result in outcomes[half::2]))
        for group, results in grouped(outcomes, by_origin if family == "secret" else by_kind):
            line(group, results)
        missed(outcomes)


def read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def outcome(record: dict[str, Any], family: str, field: str) -> str:
    text = record["text"]
    found = [each for each in scan(text) if each.family == family]
    if record["label"] == "benign":
        return "false positive" if found else "true negative"
    value = record.get(field) or ""
    start = text.find(value) if value else -1
    hit = any(start < 0 or (each.start < start + len(value) and each.end > start) for each in found)
    return "true positive" if hit else "false negative"


def by_origin(record: dict[str, Any]) -> str:
    return str(record["origin"])


def by_kind(record: dict[str, Any]) -> str:
    return f"{record['label']}: {record['kind']}"


def grouped(
    outcomes: list[tuple[dict[str, Any], str]], key: Callable[[dict[str, Any]], str]
) -> Iterable[tuple[str, list[str]]]:
    groups = defaultdict(list)
    for record, result in outcomes:
        groups[key(record)].append(result)
    return sorted(groups.items())


def line(name: str, results: Iterable[str]) -> None:
    count = Counter(results)
    hits, misses = count["true positive"], count["false negative"]
    false, right = count["false positive"], count["true negative"]
    precision, recall = share(hits, hits + false), share(hits, hits + misses)
    f1 = share(2 * hits, 2 * hits + false + misses)
    innocent = f"{share(false, false + right)} ({false} of {false + right})"
    print(f"  {name:28} {sum(count.values()):5} {precision:>9} {recall:>7} {f1:>7}  {innocent}")


def share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else "-"


def missed(outcomes: list[tuple[dict[str, Any], str]]) -> None:
    for record, result in outcomes:
        if result.startswith("false"):
            print(f"    {result}: {record['id']} {record['kind']}")


if __name__ == "__main__":
    report(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT)
