"""Rules about headings, sections and fences."""

import re
from collections.abc import Iterator

from evalwright.prompts.document import Block
from evalwright.prompts.findings import Fix, Hit, rule
from evalwright.prompts.rules.prompt_text import Reading, Section
from evalwright.signals.patterns import when_used
from evalwright.signals.word_tables import either, word_tables

# What follows a fence that has certainly ended: a heading, a rule, or the end of the file.
_AFTER_A_FENCE = when_used(r"\s*(?:\Z|\n {0,3}(?:#{1,6}[ \t]|-{3,}[ \t\r]*(?:\n|\Z)))")
# A sentence that happens to break before the mark (“put it into a ⏎ ```python block.”), and a fence
# at the very end, in which the model is to go on.
_SENTENCE_OR_CUE = when_used(
    r"[ \t>]{0,20}(?:```|~~~)(?:[\w+-]{0,30}(?:[ \t]{1,3}[A-Za-z']{1,20}){2,12}[^=:{`\n]{0,200}"
    r"|[\w+-]{1,30}\s{0,9}\Z)(?:\n|\Z)"
)
# A role that opens a message of a chat template, and titles that every part of a text may have.
_ROLE_TITLE = when_used(
    r"(?:system|user|assistant|developer|tool|function|human|ai|you|me|bot|model|\w*gpt)\b.{0,3}$"
)
_SHAPE, _HABIT, _CUES = map(either, word_tables(__file__)["titles"].values())
_REPEATED_BY_HABIT = when_used(rf"(?:{_HABIT})[ \d]*$")
# A heading at the end that the model is to go on from.
_CUE = when_used(rf"(?:your |final |model |ai |the )?(?:{_CUES})\b")
_CARRIES_CONTENT = when_used(r"[^:：]+(?:::|[:：][ \t]*\S)|.{61}|</?\w")
# An order in full, or the name of a shape that the headings after it show.
_SAYS_IT_ALL = when_used(
    r"^(?:follow|use|read|load|run|never|always|do|don't|keep|stop|ask|wait)\b(?:\W+\w+){3}"
    r"|\b(?:output|answer|response|report) (?:format|template|structure)\b|[a-z]{2}\.$",
    re.IGNORECASE,
)
_MARK_OF_AN_END = when_used(r"(?:end|start|begin|done|stop)\b", re.IGNORECASE)
_FOLLOWED_AT_ONCE = when_used(r"[^\n]*\n[ \t]{0,3}#")
_PROMISE = when_used(
    r"(?:following|these|below)\b[^\n:.]{0,60}[:：][*_ \t]*$", re.IGNORECASE | re.MULTILINE
)
# Not `###Rules###`, whose marks delimit, unless an editor took them for a heading.
_GLUED_HEADING = when_used(r"\n(\\#{2,6}|#{2,6}(?![^\n]*#[ \t\r]*(?:\n|\Z)))(?=[^\W_])")
# A comment that tells at length what belongs there is the content of a form to fill in.
_NOTHING = when_used(
    r"(?>\s+|-{3,}|\*{3,}|_{3,}"
    r"|<!--(?!(?!\W{0,9}(?i:todo|fixme|tbd))(?:[^\w>]*+\w++){6}).*?-->)*+\Z",
    re.DOTALL,
)
_CONFLICT = when_used(
    r"\n(?:<{7} |>{7} )(?!(?:SEARCH|REPLACE|ORIGINAL|UPDATED|BEFORE|AFTER|OLD|NEW)\b)[^\n]*"
)
_ON_CONFLICTS = when_used(r"(?i)conflict (?:mark|resol)|(?:resolv\w*|merge|rebase) conflict")


@rule("PE301", "error", "structure", fixable=True)
def unclosed_fence(reading: Reading) -> Iterator[Hit]:
    """A fenced block that is never closed.

    Without its closing mark a fence swallows the rest of the file: headings, variables and examples
    become code. The fix closes it at the end of the file.
    """
    fence = reading.fences[-1] if reading.fences else None
    if fence is None or fence.closed or not any(map(_is_open, reading.prompt.blocks)):
        return
    if _SENTENCE_OR_CUE.match(reading.text, fence.start):
        return
    # A mark at the end may close this fence for sure, and change nothing else.
    last = reading.prompt.blocks[-1]
    fix = None
    if (
        _is_open(last)
        and last.start == reading.line(fence.start) - 1
        and reading.text.startswith(fence.mark, fence.start)
    ):
        end = len(reading.text)
        line_end = "\r\n" if "\r\n" in reading.text else "\n"
        line = "" if reading.text.endswith("\n") else line_end
        fix = Fix(end, end, f"{line}{fence.mark}{line_end}")
    yield Hit(
        fence.start,
        "This fence is never closed, and all that follows is read as code: write "
        f"“{fence.mark}” on a line of its own where the block ends.",
        fix,
    )


def _is_open(block: Block) -> bool:
    return block.kind == "fence" and not block.closed


@rule("PE302", "error", "structure", fixable=True)
def fence_closed_with_words(reading: Reading) -> Iterator[Hit]:
    """A mark that was meant to close a fence, but has a language after it.

    CommonMark closes a fence only with a bare mark; one followed by a word such as `text` is
    content, and the block runs on to the next bare mark. The fix removes the word where a heading,
    a rule or the end of the file shows that the block had ended.
    """
    for fence in reading.fences:
        if fence.stray is None:
            continue
        mark, start, end = fence.stray
        ended = _AFTER_A_FENCE.match(reading.text, end) is not None
        words = reading.text[start:end].strip()
        yield Hit(
            mark,
            f"A closing fence cannot carry a word: “{fence.mark}{words}” leaves the block open; "
            f"write “{fence.mark}” alone.",
            Fix(start, end, "") if ended else None,
        )


@rule("PE303", "info", "structure")
def heading_level_jump(reading: Reading) -> Iterator[Hit]:
    """A heading more than one level below the one before it.

    Models and readers take the outline from heading levels; a skipped level hides what belongs to
    what. Use the next level.
    """
    level = 0
    for section in reading.sections:
        if level and section.level > level + 1:
            yield Hit(
                section.start,
                f"The heading “{_shown(section)}” jumps from level {level} to {section.level}: "
                f"write `{'#' * (level + 1)} {_shown(section)}`.",
            )
        level = section.level


@rule("PE304", "warning", "structure")
def duplicate_heading(reading: Reading) -> Iterator[Hit]:
    """Two sections of the same name side by side.

    Of two sections with one name, it is unclear which holds. Merge them, or name each after what
    sets it apart.
    """
    groups: dict[tuple[int, str], list[Section]] = {}
    parents: list[Section] = []
    for section in reading.sections:
        while parents and parents[-1].level >= section.level:
            parents.pop()
        title = section.title.strip().lower()  # with its symbols: `a == b` is not `a != b`
        groups.setdefault((parents[-1].start if parents else -1, title), []).append(section)
        parents.append(section)
    repeated = [
        same
        for same in groups.values()
        if len(same) > 1
        and not _BLANK.match(same[0].title.strip())  # each is filled in with another name
        and (key := same[0].key)
        and not _ROLE_TITLE.match(key)
        and not _REPEATED_BY_HABIT.match(key)
    ]
    # What is repeated more often, or in a row, is a pattern: rules with examples, sample answers.
    for same in repeated if len(repeated) == 1 else ():
        if len(same) == _TWICE:
            first, second = same
            yield Hit(
                second.start,
                f"The heading “{_shown(second)}” is already used in line "
                f"{reading.line(first.start)}: merge the two, or name each after what sets it "
                f"apart, such as “{_shown(second)}: exceptions”.",
            )


_TWICE = 2
_BLANK = when_used(r"(?:[\w ]{0,20}[:\d.]* ?)?[\[{<][^\n]*[\]}>]$")


@rule("PE305", "warning", "structure")
def empty_section(reading: Reading) -> Iterator[Hit]:
    """A heading with nothing below it.

    Write what the heading promises, or remove it.
    """
    empty = [_is_empty(reading, number) for number in range(len(reading.sections))]
    for number, section in enumerate(reading.sections):
        # Several in a row are an outline that the answer is to fill in.
        alone = sum(empty[max(0, number - 1) : number + 2]) == 1
        if empty[number] and alone:
            yield Hit(
                section.start,
                f"The section “{_shown(section)}” is empty: write what it promises below the "
                "heading, such as “Answer in two sentences.”, or remove it.",
            )
    # A prompt that ends where it announces a list.
    ended = reading.text.rstrip()
    last = ended.rfind("\n") + 1
    if reading.prompt.kind in ("template", "chat") or last < reading.prompt.body_offset:
        return
    if _PROMISE.search(ended, last):
        yield Hit(
            last,
            "The prompt ends where it announces something: write what follows the colon, such as "
            "“1. Name the file before you change it.”",
        )


def _is_empty(reading: Reading, number: int) -> bool:
    section = reading.sections[number]
    # A second heading of the first level is more often a comment in code than a title. Long
    # sections are not looked through: nothing but rules and comments is short.
    if (section.level == 1 and number) or section.end - section.body >= _LONG_SECTION:
        return False
    if not _NOTHING.match(reading.text, section.body, section.end):
        return False
    titles = [each.title for each in reading.sections[number : number + 1 + (section.level == 1)]]
    if any(map(_CARRIES_CONTENT.match, titles)) or _MARK_OF_AN_END.match(section.title):
        return False
    if _ROLE_TITLE.match(section.key) or _is_cue(reading, section):
        return False
    if _is_shape(reading, section):
        return False
    if _SAYS_IT_ALL.search(section.title) or len(reading.sections) == 1 == section.level:
        return False
    return section.level > 1 or _FOLLOWED_AT_ONCE.match(reading.text, section.start) is None


def _is_shape(reading: Reading, section: Section) -> bool:
    """Whether headings show the form of an answer: words, a tag or a title above announce it."""
    above = reading.text[max(reading.prompt.body_offset, section.start - _ABOVE) : section.start]
    if _ANNOUNCES_SHAPE.search(above) or len(section.title.split()) >= _SENTENCE_WORDS:
        return True
    opened = above.rfind("<")
    return opened >= 0 and _OPEN_TAG.match(above, opened) is not None


_ABOVE = 600  # characters
_SENTENCE_WORDS = 5  # so many say what they have to say
_ANNOUNCES_SHAPE = when_used(rf"(?:{_SHAPE})[^\n.。]{{0,40}}[:：][*_ \t]*\n", re.IGNORECASE)
_OPEN_TAG = when_used(r"<[^\W\d/][^<>\n]{0,60}>[^<]*\Z")


def _is_cue(reading: Reading, section: Section) -> bool:
    if section.end < len(reading.text):
        return False
    if reading.placeholders or not reading.language.is_english:
        return True  # a model goes on from the last heading
    return reading.prompt.kind in ("template", "chat") or _CUE.match(section.key) is not None


_LONG_SECTION = 2000


@rule("PE306", "warning", "structure", fixable=True)
def heading_without_space(reading: Reading) -> Iterator[Hit]:
    """`##Title`: without a space it is not a heading.

    Markdown reads such a line as a paragraph, and the section is lost. The fix adds the space.
    """
    if reading.prompt.type != "markdown":
        return
    for match in _GLUED_HEADING.finditer("\n" + reading.text, reading.prompt.body_offset):
        start, end = match.start(), match.end() - 1
        hashes = match[1].lstrip("\\")
        if reading.fence_at(start) is None:
            reason = "with a backslash before" if match[1] != hashes else "without a space after"
            yield Hit(
                start,
                f"A line {reason} its `#` is no heading: write `{hashes} Title`.",
                Fix(start, end, f"{hashes} "),
            )


@rule("PE307", "error", "structure")
def merge_conflict(reading: Reading) -> Iterator[Hit]:
    """Marks of an unresolved merge conflict.

    The file holds two versions of a passage and the marks between them, and a model reads both.
    Keep one and remove the marks.
    """
    if b"<<<<<<< " not in reading.data and b">>>>>>> " not in reading.data:
        return
    marks = list(_CONFLICT.finditer("\n" + reading.text))
    is_topic = b"conflict" in reading.lowered_data and _ON_CONFLICTS.search(reading.text)
    if not marks or is_topic:
        return
    for match in marks:
        fence = reading.fence_at(match.start())
        if fence is None or not fence.closed:  # a whole fence shows what one looks like
            yield Hit(
                match.start(),
                "A mark of an unresolved merge conflict is left in the file: keep one version, and "
                "remove the lines with `<<<<<<<`, `=======` and `>>>>>>>`.",
            )


def _shown(section: Section) -> str:
    return section.title if len(section.title) <= 60 else section.title[:57] + "…"
