"""How well the scores of tier 0 rank prompts: by ratings, with and without whole repositories.

A file without a score, such as one that is no prompt, counts as 0. Length is that of the file, in
characters; what it explains of the scores is shown for its logarithm and for itself.
"""

from collections.abc import Callable, Sequence
from math import log
from statistics import correlation, fmean

from wild import Record, Wild

from evalwright.prompts.agreement import rank_correlation

_GOOD = 7  # of the ratings from 1 to 10
_FEWEST = 3  # files of a language


def report(wild: Wild) -> None:
    """Print the tables."""
    rated = [each for each in wild.labels.values() if each.get("quality") is not None]
    prompts = [each for each in rated if each["is_prompt"]]
    junk = [each for each in rated if each["is_prompt"] is False]
    foreign = [each for each in rated if each["language"] != "en"]
    print("\nscores: rank correlation with the ratings")
    for name, files, goal in (
        ("all rated files", rated, "0.65"),
        ("outside English", foreign, "0.55"),
        ("prompts alone", prompts, "0.55"),
        ("prompts outside English", [each for each in foreign if each["is_prompt"]], ""),
    ):
        shown = f", goal {goal}" if goal else ""
        print(f"  {name:32} {_ranked(wild, files):>6} of {len(files)}{shown}")
    by_language = {each["language"] for each in prompts}
    for language in sorted(by_language):
        files = [each for each in prompts if each["language"] == language]
        if len(files) >= _FEWEST:
            print(f"    prompts in {language:21} {_ranked(wild, files):>6} of {len(files)}")
    _left_out(wild, prompts, "repository", lambda each: wild.repository(each["file"]))
    _left_out(wild, prompts, "language", lambda each: each["language"])
    good = [each for each in prompts if each["quality"] >= _GOOD]
    apart = _mean(wild, good) - _mean(wild, junk)
    print(f"good prompts ({_GOOD} and more) minus files that are no prompts: {apart:.1f}, goal 30")
    _by_rating(wild, rated)
    everything = [each for each in wild.labels.values() if each["is_prompt"]]
    print("variance of the scores that length explains, of its logarithm and of itself, goal 15 %")
    for name, files in (("rated", rated), ("rated prompts", prompts), ("prompts", everything)):
        print(f"  {name:32} {_explained(wild, files, log)}, {_explained(wild, files, float)}")


def _score(wild: Wild, label: Record) -> float:
    result = wild.results.get(label["file"])
    return 10 * result.scores.overall if result is not None and result.scores else 0.0


def _ranked(wild: Wild, labels: Sequence[Record]) -> str:
    ratings = [float(each["quality"]) for each in labels]
    found = rank_correlation(ratings, [_score(wild, each) for each in labels])
    return "none" if found is None else f"{found:.2f}"


def _mean(wild: Wild, labels: Sequence[Record]) -> float:
    return fmean(_score(wild, each) for each in labels) if labels else 0.0


def _left_out(
    wild: Wild, labels: Sequence[Record], what: str, key: Callable[[Record], str]
) -> None:
    """The figure without any one repository or language: it must not hang on a single one."""
    found = sorted(
        (_ranked(wild, [each for each in labels if key(each) != name]), name)
        for name in {key(each) for each in labels}
    )
    if len(found) > 1:
        (low, lowest), (high, highest) = found[0], found[-1]
        print(f"  one {what} left out: {low} (without {lowest}) to {high} (without {highest})")


def _by_rating(wild: Wild, labels: Sequence[Record]) -> None:
    means = (
        f"{rating}: {_mean(wild, [each for each in labels if each['quality'] == rating]):.0f}"
        for rating in sorted({each["quality"] for each in labels})
    )
    print(f"mean score by rating: {', '.join(means)}")


def _explained(wild: Wild, labels: Sequence[Record], scale: Callable[[float], float]) -> str:
    lengths = [scale(wild.length(each["file"])) for each in labels]
    share = correlation(lengths, [_score(wild, each) for each in labels]) ** 2
    return f"{100 * share:.1f} %"
