"""Rules about headings, sections and fences."""

import re
from collections.abc import Iterator

from evalwright.prompts.document import Block
from evalwright.prompts.findings import Fix, Hit, Rule
from evalwright.prompts.rules.reading import Fence, Reading, Section

# What follows a fence that has certainly ended: a heading, a rule, or the end of the file.
_AFTER_A_FENCE = re.compile(r"\s*(?:\Z|\n {0,3}(?:#{1,6}[ \t]|-{3,}[ \t\r]*(?:\n|\Z)))")
_GLUED_HEADING = re.compile(r"\n(#{2,6})(?=[A-Za-z0-9])")
_NOTHING = re.compile(r"(?>\s+|-{3,}|\*{3,}|_{3,}|<!--.*?-->)*+\Z", re.DOTALL)
_CONFLICT = re.compile(r"\n(?:<{7} |>{7} )[^\n]*")


def _unclosed_fence(reading: Reading) -> Iterator[Hit]:
    fence = reading.fences[-1] if reading.fences else None
    if fence is None or fence.closed or not any(map(_is_open, reading.prompt.blocks)):
        return
    yield Hit(
        fence.start,
        "This fence is never closed: all that follows is read as code.",
        _closing(reading.text, fence) if _ends_the_file(reading, fence) else None,
    )


def _is_open(block: Block) -> bool:
    return block.kind == "fence" and not block.closed


def _ends_the_file(reading: Reading, fence: Fence) -> bool:
    """Whether a mark at the end closes this fence for sure, and changes nothing else."""
    last = reading.prompt.blocks[-1]
    same = _is_open(last) and last.start == reading.line(fence.start) - 1
    return same and reading.text.startswith(fence.mark, fence.start)


def _closing(text: str, fence: Fence) -> Fix:
    end = len(text)
    line_end = "\r\n" if "\r\n" in text else "\n"
    line = "" if text.endswith("\n") else line_end
    return Fix(end, end, f"{line}{fence.mark}{line_end}")


def _fence_closed_with_words(reading: Reading) -> Iterator[Hit]:
    for fence in reading.fences:
        if fence.stray is None:
            continue
        mark, start, end = fence.stray
        ended = _AFTER_A_FENCE.match(reading.text, end) is not None
        words = reading.text[start:end].strip()
        yield Hit(
            mark,
            f"A closing fence cannot carry a word: “{fence.mark}{words}” leaves the block open.",
            Fix(start, end, "") if ended else None,
        )


def _heading_jump(reading: Reading) -> Iterator[Hit]:
    level = 0
    for section in reading.sections:
        if level and section.level > level + 1:
            yield Hit(
                section.start,
                f"The heading “{_shown(section)}” jumps from level {level} to {section.level}.",
            )
        level = section.level


def _duplicate_heading(reading: Reading) -> Iterator[Hit]:
    parents: list[Section] = []
    seen: dict[tuple[int, str], Section] = {}
    for section in reading.sections:
        while parents and parents[-1].level >= section.level:
            parents.pop()
        key = (parents[-1].start if parents else -1, section.key)
        first = seen.setdefault(key, section)
        if first is not section and section.key:
            line = reading.line(first.start)
            yield Hit(
                section.start, f"The heading “{_shown(section)}” is already used in line {line}."
            )
        parents.append(section)


def _empty_section(reading: Reading) -> Iterator[Hit]:
    for number, section in enumerate(reading.sections):
        # A second heading of the first level is more often a comment in code than a title. Long
        # sections are not looked through: nothing but rules and comments is short.
        if (
            (section.level > 1 or number == 0)
            and section.end - section.body < 2000
            and _NOTHING.match(reading.text, section.body, section.end)
        ):
            yield Hit(section.start, f"The section “{_shown(section)}” is empty.")


def _glued_heading(reading: Reading) -> Iterator[Hit]:
    if reading.prompt.type != "markdown":
        return
    for match in _GLUED_HEADING.finditer("\n" + reading.text, reading.prompt.body_offset):
        start, end = match.start(), match.end() - 1
        if reading.fence_at(start) is None:
            yield Hit(start, "A heading needs a space after its `#`.", Fix(end, end, " "))


def _merge_conflict(reading: Reading) -> Iterator[Hit]:
    if "<<<<<<< " not in reading.text and ">>>>>>> " not in reading.text:
        return
    for match in _CONFLICT.finditer("\n" + reading.text):
        yield Hit(match.start(), "A mark of an unresolved merge conflict is left in the file.")


def _shown(section: Section) -> str:
    return section.title if len(section.title) <= 60 else section.title[:57] + "…"


RULES = (
    Rule(
        id="PE301",
        name="unclosed-fence",
        severity="error",
        criterion="structure",
        summary="A fenced block that is never closed.",
        explanation=(
            "Without its closing mark a fence swallows the rest of the file: headings, variables "
            "and examples become code. The fix closes it at the end of the file."
        ),
        check=_unclosed_fence,
        fixable=True,
    ),
    Rule(
        id="PE302",
        name="fence-closed-with-words",
        severity="error",
        criterion="structure",
        summary="A mark that was meant to close a fence, but has a language after it.",
        explanation=(
            "CommonMark closes a fence only with a bare mark; one followed by a word such as "
            "`text` is content, and the block runs on to the next bare mark. The fix removes the "
            "word where a heading, a rule or the end of the file shows that the block had ended."
        ),
        check=_fence_closed_with_words,
        fixable=True,
    ),
    Rule(
        id="PE303",
        name="heading-level-jump",
        severity="info",
        criterion="structure",
        summary="A heading more than one level below the one before it.",
        explanation=(
            "Models and readers take the outline from heading levels; a skipped level hides what "
            "belongs to what. Use the next level."
        ),
        check=_heading_jump,
    ),
    Rule(
        id="PE304",
        name="duplicate-heading",
        severity="warning",
        criterion="structure",
        summary="Two sections of the same name side by side.",
        explanation=(
            "Of two sections with one name, it is unclear which holds. Merge them, or name each "
            "after what sets it apart."
        ),
        check=_duplicate_heading,
    ),
    Rule(
        id="PE305",
        name="empty-section",
        severity="warning",
        criterion="structure",
        summary="A heading with nothing below it.",
        explanation="Write what the heading promises, or remove it.",
        check=_empty_section,
    ),
    Rule(
        id="PE306",
        name="heading-without-space",
        severity="warning",
        criterion="structure",
        summary="`##Title`: without a space it is not a heading.",
        explanation=(
            "Markdown reads such a line as a paragraph, and the section is lost. The fix adds the "
            "space."
        ),
        check=_glued_heading,
        fixable=True,
    ),
    Rule(
        id="PE307",
        name="merge-conflict",
        severity="error",
        criterion="structure",
        summary="Marks of an unresolved merge conflict.",
        explanation=(
            "The file holds two versions of a passage and the marks between them, and a model "
            "reads both. Keep one and remove the marks."
        ),
        check=_merge_conflict,
    ),
)
