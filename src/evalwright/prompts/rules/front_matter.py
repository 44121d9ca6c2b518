"""Rules about front matter."""

import re
from collections.abc import Iterator
from datetime import date
from typing import Any

from evalwright.prompts.findings import Hit, Rule
from evalwright.prompts.rules.reading import Reading

_DESCRIPTIONS = ("description", "intro", "summary", "purpose", "abstract")
_DATES = ("date", "created", "updated", "last_updated", "lastUpdated", "modified")
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?$")
_UNFILLED = re.compile(
    r"(?:todo|tbd|tba|fixme|xxx|n/?a|your[ _-]name|your[ _-]title|name here|title here|untitled|"
    r"author|unknown|lorem ipsum.*|description|title|\?+|\.\.\.|\[.*\]|<.*>)$",
    re.IGNORECASE,
)
_SHORT = 60
_CHECKED = ("title", "shortTitle", "author", *_DESCRIPTIONS)


def _missing(reading: Reading) -> Iterator[Hit]:
    prompt = reading.prompt
    if prompt.type == "markdown" and prompt.frontmatter is None:
        yield Hit(0, "The file has no front matter: add a title and a description between `---`.")


def _incomplete(reading: Reading) -> Iterator[Hit]:
    fields = reading.prompt.frontmatter
    if fields is None:
        return
    required = (("title", ("title", "name")), ("description", _DESCRIPTIONS))
    lacking = [name for name, keys in required if not any(key in fields for key in keys)]
    if lacking:
        yield Hit(0, f"The front matter has no {' and no '.join(lacking)}.")


def _unfit(reading: Reading) -> Iterator[Hit]:
    for key, value in (reading.prompt.frontmatter or {}).items():
        reason = _unfitness(key, value)
        if reason:
            found = re.search(rf"^[\"']?{re.escape(key)}[\"']?[ \t]*:", reading.text, re.MULTILINE)
            offset = found.start() if found else 0
            yield Hit(offset, f"`{key}` in the front matter {reason}.")


def _unfitness(key: str, value: Any) -> str | None:
    if key in _CHECKED:
        if value is None or (isinstance(value, str) and not value.strip()):
            return "is empty: fill it in or remove it"
        if not isinstance(value, str):
            return "is not a text" if isinstance(value, list | dict | bool) else None
        if len(value) <= _SHORT and _UNFILLED.match(value.strip()):
            return f"still holds the placeholder “{value.strip()}”"
    if key in _DATES and isinstance(value, str) and not _is_date(value):
        return f"is not a date in the form YYYY-MM-DD: “{value}”"
    return None


def _is_date(value: str) -> bool:
    if not _ISO_DATE.match(value.strip()):
        return False
    try:
        date.fromisoformat(value.strip()[:10])
    except ValueError:
        return False
    return True


RULES = (
    Rule(
        id="PE001",
        name="missing-front-matter",
        severity="warning",
        criterion="completeness",
        summary="A Markdown prompt without front matter.",
        explanation=(
            "Title, description and version in front matter let a library be searched, sorted and "
            "reviewed. Start the file with a block of YAML between two lines of `---`."
        ),
        check=_missing,
    ),
    Rule(
        id="PE002",
        name="incomplete-front-matter",
        severity="warning",
        criterion="completeness",
        summary="Front matter without a title or without a description.",
        explanation=(
            "Readers choose a prompt by its title and its description (`description`, `intro`, "
            "`summary` or `purpose`). Add the one that is missing."
        ),
        check=_incomplete,
    ),
    Rule(
        id="PE003",
        name="unfit-front-matter-value",
        severity="warning",
        criterion="completeness",
        summary="A value in the front matter that is empty, unfilled or not a date.",
        explanation=(
            "An empty title, an author called “Your Name” or an invalid date shows that the "
            "front matter was never finished. Fill the value in, or remove its key."
        ),
        check=_unfit,
    ),
)
