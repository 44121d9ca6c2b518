"""A library of prompts of about 6 KB of which no two are alike."""

import random
from pathlib import Path

FOLDER = 500  # files in each
SECTIONS = 20
VERBS = ["List", "Compare", "Check", "Rank", "Explain", "Shorten", "Sort", "Count", "Quote"]
THINGS = ["orders", "invoices", "findings", "clauses", "tests", "commits", "tickets", "figures"]
HOW = ["in one sentence", "as a table", "with the line", "oldest first", "without names"]


def made_library(folder: Path, files: int) -> Path:
    for number in range(files):
        inside = folder / f"part-{number // FOLDER:03d}"
        inside.mkdir(exist_ok=True)
        (inside / f"review-{number:05d}.md").write_text(made_prompt(random.Random(number), number))
    return folder


def made_prompt(chance: random.Random, number: int) -> str:
    head = f"---\ntitle: Review {number}\ndescription: Reviews part {number}.\n---\n\n"
    sections = (_section(chance, n + 1) for n in range(SECTIONS))
    return f"{head}# Review {number}\n\n{''.join(sections)}"


def _section(chance: random.Random, n: int) -> str:
    sentences = (
        f"{chance.choice(VERBS)} the {chance.choice(THINGS)} of "
        f"{{{{subject}}}} beside the {chance.choice(THINGS)} of part {chance.randrange(10_000)}, "
        f"{chance.choice(HOW)}."
        for _ in range(3)
    )
    return f"## Step {n}\n\n{' '.join(sentences)}\n\n"
