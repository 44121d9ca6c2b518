"""Rules about front matter."""

import re
from collections.abc import Iterator
from datetime import date

from evalwright.prompts.file_kinds import KNOWN_KEYS
from evalwright.prompts.findings import Hit, rule
from evalwright.prompts.rules.prompt_text import Reading
from evalwright.signals.patterns import when_used

_DESCRIPTIONS = ("description", "intro", "summary", "purpose", "abstract")
_DATES = ("date", "created", "updated", "last_updated", "lastUpdated", "modified")
_DIGITS = when_used(r"\s*(?:\d{4}-\d|y{4}-)", re.IGNORECASE)  # other forms have their readers
_ISO_DATE = when_used(r"\d{4}-\d\d-\d\d(?:[T ].*)?$")
_UNFILLED = when_used(
    r"(?:todo|tbd|tba|fixme|xxx|n/?a|your[ _-]name|your[ _-]title|name here|title here|untitled|"
    r"author|unknown|lorem ipsum.*|description|title|\?+|\.\.\.|\[.*\]|<.*>)$",
    re.IGNORECASE,
)
_SHORT = 60
# Formats whose tool reads nothing else than front matter to know when to use a file.
_NEEDING = ("skill.md", ".instructions.md", ".mdc", ".agent.md", ".chatmode.md")
_READ_LOOSELY = when_used(r"line (\d+)(?:, column \d+)?: front matter: ")
_CHECKED = ("title", "shortTitle", "author", *_DESCRIPTIONS)
_EXAMPLES = {"title": "Review a contract", "shortTitle": "Contracts", "author": "Legal team"}


@rule("PE001", "warning", "completeness")
def missing_front_matter(reading: Reading) -> Iterator[Hit]:
    """A file without front matter, in a format that needs it.

    Skills, agents, `.mdc` and `.instructions.md` files are chosen by their front matter. Start the
    file with a block of YAML between two lines of `---`, for example with `description: Rules for
    SQL migrations`. Other formats need none.
    """
    prompt = reading.prompt
    if prompt.frontmatter is None and prompt.path.lower().endswith(_NEEDING):
        yield Hit(
            0,
            "The file has no front matter, from which its tool learns what it is for: start it "
            "with `---`, a line such as `description: Rules for SQL migrations`, and `---`.",
        )


@rule("PE002", "warning", "completeness", kinds=frozenset(("library_page", "skill", "chat")))
def incomplete_front_matter(reading: Reading) -> Iterator[Hit]:
    """Front matter without a description, or a library's page without a title.

    Readers and agents choose a prompt by its description (`description`, `intro`, `summary` or
    `purpose`), readers of a library also by its title. Add the one that is missing, for example
    `description: Lists the risks of a contract`.
    """
    fields = reading.prompt.frontmatter
    if fields is None:
        return
    has_title = reading.prompt.kind != "library_page" or bool({"title", "name"} & fields.keys())
    has_description = not fields.keys().isdisjoint(_DESCRIPTIONS)
    if not has_description and {"title", "name"}.isdisjoint(fields):
        return  # its format knows neither
    if reading.prompt.kind in ("library_page", "skill") and not fields.keys() <= KNOWN_KEYS:
        return  # it is written for another tool, which asks for what it needs
    lacking = [
        line
        for line, is_there in (
            ("title: Review a contract", has_title),
            ("description: Lists the risks of a contract", has_description),
        )
        if not is_there
    ]
    if lacking:
        names = " and no ".join(line.partition(":")[0] for line in lacking)
        example = " and ".join(f"`{line}`" for line in lacking)
        place = "front matter" if reading.prompt.type == "markdown" else "file"
        yield Hit(0, f"The {place} has no {names}: add a line such as {example}.")


@rule(
    "PE004",
    "info",
    "structure",
    kinds=frozenset(("library_page", "skill", "chat", "system_prompt", "template")),
)
def loose_front_matter(reading: Reading) -> Iterator[Hit]:
    """A line of front matter that only lenient tools can read.

    A colon within a value, a leading `*` or `@`, a stray quote: it is read as the text it looks
    like, but not by every tool. Put the value in quotes: `description: "Use it for: reviews"`.
    """
    prompt = reading.prompt
    found = map(_READ_LOOSELY.match, prompt.notes)
    for line in {int(each[1]) for each in found if each is not None}:
        start = sum(map(len, prompt.text.splitlines(keepends=True)[: line - 1]))
        yield Hit(
            min(start, len(prompt.text)),
            "This line is no YAML, and some tools will refuse the file: put the value in quotes, "
            'as in `description: "Use it for: reviews"`.',
        )


@rule(
    "PE003",
    "warning",
    "completeness",
    kinds=frozenset(("library_page", "skill", "chat", "system_prompt", "template")),
)
def unfit_front_matter_value(reading: Reading) -> Iterator[Hit]:
    """A value in the front matter that is empty, unfilled or not a date.

    An empty title, an author called “Your Name” or an invalid date shows that the front matter was
    never finished. Fill the value in, or remove its key. Rules for agents may leave theirs empty.
    """
    for key, value in (reading.prompt.frontmatter or {}).items():
        reason = None
        if key in _CHECKED:
            example = f"`{key}: {_EXAMPLES.get(key, 'Lists the risks of a contract')}`"
            if value is None or (isinstance(value, str) and not value.strip()):
                reason = f"is empty: fill it in, as in {example}, or remove it"
            elif isinstance(value, list | dict | bool):
                reason = f"is not a text: write one, as in {example}"
            elif isinstance(value, str) and len(value) <= _SHORT and _UNFILLED.match(value.strip()):
                reason = f"still holds the placeholder “{value.strip()}”: write, say, {example}"
        if key in _DATES and isinstance(value, str) and _DIGITS.match(value):
            try:
                is_date = _ISO_DATE.match(value.strip()) and date.fromisoformat(value.strip()[:10])
            except ValueError:
                is_date = None
            if not is_date:
                reason = f"is not a date in the form YYYY-MM-DD: “{value}”: write, say, "
                reason += f"`{key}: 2026-01-31`"
        if reason:
            found = re.search(rf"^[\"']?{re.escape(key)}[\"']?[ \t]*:", reading.text, re.MULTILINE)
            offset = found.start() if found else 0
            yield Hit(offset, f"`{key}` in the front matter {reason}.")
