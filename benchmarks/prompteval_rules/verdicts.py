"""Which files are taken for prompts, and in which language each is read."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from wild import Wild

from evalwright.prompts.parse import parse_prompt


def report(wild: Wild) -> None:
    """Print how much was told right, and what was not."""
    called = {
        file: result.details.not_a_prompt if result.scores else "error"
        for file, result in wild.results.items()
    }
    prompts = [file for file, label in wild.labels.items() if label["is_prompt"]]
    others = [file for file, label in wild.labels.items() if label["is_prompt"] is False]
    passed = [file for file in others if wild.results[file].passed]
    print(f"\n{_share('files without an error', called, lambda found: found != 'error')}")
    of_prompts = {file: called[file] for file in prompts}
    of_others = {file: called[file] for file in others}
    print(_share("prompts taken for prompts (goal 98 %)", of_prompts, lambda found: not found))
    print(_share("no prompts told as such", of_others, bool), f"; {len(passed)} of them pass")
    print("  as", dict(Counter(filter(None, of_others.values())).most_common()))
    wrong = [file for file, found in of_prompts.items() if found]
    missed = [file for file, found in of_others.items() if not found]
    print("  prompts called something else:", *wrong or ["none"])
    print("  no prompts that were missed:", *missed or ["none"])
    languages = {file: _language(wild, file) for file in prompts}
    right = {file: code == wild.language(file) for file, code in languages.items()}
    print(_share("prompts read in their language", right, bool))


def _share(what: str, found: Mapping[str, Any], is_right: Callable[[Any], object]) -> str:
    count = sum(map(bool, map(is_right, found.values())))
    return f"{what}: {count} of {len(found)} ({100 * count / max(1, len(found)):.1f} %)"


def _language(wild: Wild, file: str) -> str:
    return parse_prompt(wild.data(file), Path(file).name).language.code
