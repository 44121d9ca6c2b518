"""Labelled prompt files, and what tier 0 says of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from evalwright.contracts.prompt_result import Finding, PromptResult
from evalwright.prompts.evaluate import lint_files

Record = dict[str, Any]


class Place(NamedTuple):
    """Where a rule speaks; a line of 0 is the whole file."""

    file: str
    rule: str
    line: int


class Wild:
    """The files of one set, their labels, and the results of the tool."""

    def __init__(self, data: Path, more_judged: Path | None = None) -> None:
        self._data = data
        self.labels = {each["file"]: each for each in _records(data / "labels.jsonl")}
        self.misses = list(_records(data / "misses.jsonl"))
        self.judged: dict[Place, bool] = {}
        for source in (data / "findings.jsonl", more_judged):
            for each in _records(source) if source else ():
                place = Place(each["file"], each["rule"], each["line"] or 0)
                self.judged.setdefault(place, each["right"])
        self.of_the_set = {
            Place(each["file"], each["rule"], each["line"] or 0)
            for each in _records(data / "findings.jsonl")
        }
        root = str(data.resolve())
        self.results: dict[str, PromptResult] = {
            str(Path(each.input.path).resolve())[len(root) + 1 :]: each
            for each in lint_files([data / "files"])
        }

    def findings(self) -> Iterator[tuple[Place, Finding]]:
        """Everything that the rules say, with its place."""
        for file, result in sorted(self.results.items()):
            for each in result.details.findings:
                yield Place(file, each.rule, each.line), each

    def verdict(self, place: Place) -> bool | None:
        """Whether a finding is right; None where nobody has judged it."""
        known = self.judged.get(place)
        return self.judged.get(place._replace(line=0)) if known is None else known

    def data(self, file: str) -> bytes:
        """The content of a file."""
        return (self._data / file).read_bytes()

    def length(self, file: str) -> int:
        """The characters of a file."""
        return len(self.data(file).decode())

    def repository(self, file: str) -> str:
        """The repository that a file comes from."""
        return file.split("/")[1]

    def language(self, file: str) -> str:
        """The language of a file, as labelled."""
        return str(self.labels.get(file, {}).get("language") or "?")


def _records(file: Path) -> Iterator[Record]:
    for line in file.read_bytes().splitlines():
        yield msgspec.json.decode(line)
