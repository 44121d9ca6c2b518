"""How well secrets and personal data are found: precision, recall, F1 and false positives per set.

A labelled text counts as found when a finding of the right family overlaps the labelled value, or,
where no value is labelled, when there is any; an innocent text counts as falsely found when there
is any finding of that family at all.

`lookalikes.txt` has texts that hold no secret but look like it, written before the rules were
looked at; `<hex:40>` stands for so many random characters, which differ in each round.
"""

import base64
import gzip
import json
import re
import string
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from board import Board, at_least, at_most
from labelled import Labelled

from evalwright.signals.sensitive import scan
from evalwright.signals.sensitive_part import SensitivePart

SETS = (
    ("secrets", "secret", "secrets/secrets.jsonl.gz", "secret"),
    ("personal data", "pii", "pii/pii.jsonl.gz", "value"),
)
FOUND = at_least(0.97)
FALSE = at_most(0.02)
SELDOM = at_most(0.03)
LOOKALIKES = Path(__file__).with_name("lookalikes.txt")
ROUNDS = 10
CHARACTERS = {
    "hex": "0123456789abcdef",
    "digits": string.digits,
    "caps": string.ascii_uppercase + string.digits,
    "small": string.ascii_lowercase + string.digits,
    "word": string.ascii_letters + string.digits,
}
Outcomes = list[tuple[dict[str, Any], str]]


def report(labelled: Labelled, board: Board) -> None:
    for name, family, path, field in SETS:
        outcomes = [(each, outcome(each, family, field)) for each in read(labelled.data / path)]
        board.heading(name, path)
        _rows(board, "all", [result for _, result in outcomes], held=True)
        for group, results in grouped(outcomes, by_origin if family == "secret" else by_kind):
            _rows(board, group, results)
        for record, result in outcomes:
            if result.startswith("false"):
                print(f"    {result}: {record['id']} {record['kind']}")

    board.heading("look-alikes", "texts without a secret")
    texts = list(lookalikes())
    false = [text for text in texts if any(each.family == "secret" for each in scan(text))]
    board.share("taken for a secret", len(false), len(texts), SELDOM)
    for text in false[:20]:
        print(f"    false positive: {text[:100]}")


def lookalikes() -> Iterator[str]:
    """The texts, with other characters in each round."""
    rng = Random("lookalikes")

    def made(found: re.Match[str]) -> str:
        kind, count = found[1], int(found[2])
        if kind == "uuid":
            return str(UUID(int=rng.getrandbits(128), version=4))
        if kind in CHARACTERS:
            return "".join(rng.choice(CHARACTERS[kind]) for _ in range(count))
        encode = base64.b64encode if kind == "base64" else base64.urlsafe_b64encode
        return encode(rng.randbytes(count)).decode()

    for _ in range(ROUNDS):
        for line in LOOKALIKES.read_text(encoding="utf-8").splitlines():
            yield re.sub(r"<(\w+):(\d+)>", made, line)


def judged_parts(data: Path) -> Iterator[tuple[str, str, bool]]:
    """Every finding in a labelled text: its family, its confidence, and whether it is right."""
    for _, family, path, field in SETS:
        for record in read(data / path):
            for part in found_in(record, family):
                yield (
                    family,
                    part.confidence,
                    record["label"] != "benign" and hits(record, field, part),
                )


def read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def found_in(record: dict[str, Any], family: str) -> list[SensitivePart]:
    return [each for each in scan(record["text"]) if each.family == family]


def hits(record: dict[str, Any], field: str, part: SensitivePart) -> bool:
    value = record.get(field) or ""
    start = record["text"].find(value) if value else -1
    return start < 0 or (part.start < start + len(value) and part.end > start)


def outcome(record: dict[str, Any], family: str, field: str) -> str:
    found = found_in(record, family)
    if record["label"] == "benign":
        return "false positive" if found else "true negative"
    return "true positive" if any(hits(record, field, each) for each in found) else "false negative"


def by_origin(record: dict[str, Any]) -> str:
    return str(record["origin"])


def by_kind(record: dict[str, Any]) -> str:
    return f"{record['label']}: {record['kind']}"


def grouped(
    outcomes: Outcomes, key: Callable[[dict[str, Any]], str]
) -> Iterable[tuple[str, list[str]]]:
    groups = defaultdict(list)
    for record, result in outcomes:
        groups[key(record)].append(result)
    return sorted(groups.items())


def _rows(board: Board, name: str, results: list[str], *, held: bool = False) -> None:
    count = Counter(results)
    found, missed = count["true positive"], count["false negative"]
    false, right = count["false positive"], count["true negative"]
    if found + missed:
        f1 = 2 * found / max(1, 2 * found + false + missed)
        board.figure(f"{name}: F1", len(results), f1, FOUND if held else None)
    if false + right:
        board.share(f"{name}: false positives", false, false + right, FALSE if held else None)
