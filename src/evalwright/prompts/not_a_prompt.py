"""Files that are no prompts: licences, change logs, READMEs, logs, recipes, scaffolds and the like.

Each detector looks for what makes a document of its kind; one that could also be met in a prompt
counts only where nothing addresses a model. Where the words of a language are not known, only what
shows without words is judged.
"""

from collections import Counter
from collections.abc import Callable, Collection
from itertools import repeat

from evalwright.prompts import document_signs as signs
from evalwright.prompts import everyday_documents as everyday
from evalwright.prompts.document_signs import DESCRIPTIONS, DocumentKind
from evalwright.prompts.file_kinds import PromptKind
from evalwright.prompts.rules.prompt_text import Reading, is_json, once
from evalwright.prompts.vocabulary import Concept, concept_counts, has_vocabulary
from evalwright.signals.language import words
from evalwright.signals.patterns import when_used

# Their format shows that an agent reads them: only one without content is no prompt.
_SURE_KINDS: frozenset[PromptKind] = frozenset({"agent_rules", "skill", "chat"})
_TOLD_BY_NAME: tuple[DocumentKind, ...] = ("licence", "code_of_conduct", "changelog", "readme")
_OPENING = 600  # characters at the start, in which a prompt says what it is
_LONGEST_SEARCHED = 60_000  # characters; what a document is shows in its first pages

_STARTS = when_used(r"\n\s*\S|[.!?]\s+\S")
_FIRST_WORD = when_used(
    r"[\n.!?:;][\s>*_#\d.()\-•]{0,40}(?:please |then |next, |now,? )?([a-z'-]+)"
)
# “You review contracts”; but not “You can see …”, which readers are told, too.
_TELLS_WHAT_YOU_DO = when_used(
    r"you (?!can\b|could|may\b|might|have\b|know|want|need|don't)[a-z]+\b"
)
_LABEL = when_used(r"\W{0,6}\w+[*_]{0,2}:[*_]{0,2} \S")  # a word that says what follows, no order
_LEADS_IN = when_used(r"(?m)^[^\W\d_][^\n:：]*?(?: [^\s:：]+)+[:：]\s*\n\s*(?:```|~~~)")
_PRESSING = frozenset(
    "must should never always please need needs required shall avoid ensure don't".split()
)
_YOU = ("you", "your", "you're", "you'll")
_VARIABLES = frozenset({"{{}}", "${}", "{}"})
_DATA = frozenset({"list_item", "table", "fence"})
_FEWEST_WORDS = 10
_FEWEST_TO_JUDGE = 40
_NOTHING_LEFT = 2
_DIRECTED = 0.13  # imperatives per sentence, and words that press or address per five words
_PROJECT_SHARE = 0.05  # of the words
_MOSTLY_ORDERS = 0.6
_SPEAKS = 0.015  # the same in other languages: per different word


@once
def not_a_prompt(reading: Reading) -> DocumentKind | None:
    """What a file is that is no prompt; None for a prompt, and where it cannot be told."""
    # Format, name, a heading above the prompt or the first words may show that it is one.
    is_meant = (
        reading.prompt.kind in _SURE_KINDS
        or reading.core_section is not None
        or signs.PROMPT_NAMES.search(_stem(reading)) is not None
        or _addresses(reading, _OPENING)
    )
    by_name = next((kind for kind in _TOLD_BY_NAME if _named(reading, kind)), None)
    if by_name is not None and not is_meant:
        # One may also be ordered to be written from what is filled in.
        is_filled_in = by_name != "readme" and _has_variables(reading)
        if not (is_filled_in and _opens_with_order(reading)):
            return by_name
    if _is_scaffold(reading):
        return "scaffold"
    count = len(reading.word_list)
    if "ipsum" in reading.words and _occurrences(reading, signs.LOREM_WORDS) >= 0.4 * count:
        return "lorem_ipsum"
    if 25 <= count <= 400 and _occurrences(reading, signs.JARGON_WORDS) >= 0.45 * count:
        return "keyword_salad"
    if is_meant:
        return None
    if signs.DOCS_FOLDER.search(reading.prompt.path.lower()) and not _addresses(reading):
        return "readme"
    kind = _project_document(reading) or _everyday(reading)
    return "no_instructions" if kind is None and _no_instructions(reading) else kind


def described(kind: DocumentKind) -> str:
    """What to say of a file that is no prompt."""
    return f"Not a prompt but {DESCRIPTIONS[kind]}"


def _is_scaffold(reading: Reading) -> bool:
    """Nothing but headings, tags, blanks and marks of what is to be written."""
    text = reading.lowered[:_LONGEST_SEARCHED]
    if len(reading.word_list) <= _FEWEST_WORDS * 5:
        left, blanks = signs.BLANKS.subn(" ", reading.core[:_LONGEST_SEARCHED])
        is_order = _LEADS_IN.search(reading.prompt.body) is not None
        if (
            not is_order
            and len(words(left.lower())) <= _NOTHING_LEFT
            and (blanks or left.rstrip().endswith(":"))
        ):
            return not _has_variables(reading)
    if reading.sections and signs.BLANK_TITLE.search(reading.sections[0].title.strip().lower()):
        return True
    if not signs.ANY_FILL_IN.search(text.encode("utf-8", "surrogatepass")):
        return False
    fewest = max(3, 0.03 * len(reading.word_list))
    # To look for the pattern takes long: first what every mark holds is counted.
    if sum(map(text.count, signs.FILL_IN_PARTS)) < fewest:
        return False
    if len(signs.FILL_IN_MARK.findall(text)) < fewest:
        return False
    return not (_has_variables(reading) and _opens_with_order(reading))  # a draft of a prompt


def _project_document(reading: Reading) -> DocumentKind | None:
    """What a text is of that lies about in projects: a licence, a README, a log and the like."""
    first = reading.sections[0].key if reading.sections else ""
    is_titled = signs.LICENCE_TITLE.search(first) is not None
    if _phrases(reading, signs.LICENCE_PHRASES) >= (2 if is_titled else 4):
        return "licence"
    if _phrases(reading, signs.CONDUCT_PHRASES) >= 4:
        return "code_of_conduct"
    if len(signs.RELEASE_HEADING.findall(_signed_body(reading))) >= 3:
        return "changelog"
    body = reading.prompt.body[:_LONGEST_SEARCHED]
    lines = [line for line in body.splitlines() if line.strip()]
    if len(lines) >= 5 and sum(map(bool, map(signs.LOG_LINE.match, lines))) >= 0.6 * len(lines):
        return "log"
    found = _phrases(reading, signs.COMMUNITY_PHRASES)
    if found >= (2 if _named(reading, "community") else 6) and not _addresses(reading):
        return "community"
    titles = {each.key for each in reading.sections if signs.DECISION_TITLES.match(each.key)}
    if len(titles) >= 3 and not _addresses(reading):
        return "decision_record"
    if _is_readme(reading):
        return "readme"
    may_cook = any(map(body.lower().__contains__, signs.RECIPE_WORDS)) and any(
        signs.RECIPE_TITLES.match(each.key) for each in reading.outline.sections
    )
    if may_cook and len(signs.QUANTITY_LINE.findall(body)) >= 2 and not _addresses(reading):
        return "recipe"
    return None


def _is_readme(reading: Reading) -> bool:
    body = _signed_body(reading)
    titles = {each.key for each in reading.sections if signs.README_TITLES.match(each.key)}
    badges = min(3, len(signs.BADGE.findall(body)))
    installs = min(2, len(signs.INSTALL_COMMAND.findall(body)))
    needed = 1 if signs.README_OF.search(_stem(reading)) else 4
    if len(titles) + badges + installs >= needed:
        return True
    if not any(signs.ENDPOINT.match(each.key) for each in reading.sections):
        # Without endpoints it must speak of a project, and order next to nothing.
        count = len(reading.word_list)
        if count < _FEWEST_WORDS * 4 or _has_variables(reading):
            return False
        if _opens_with_order(reading) or _directed(reading) >= _MOSTLY_ORDERS:
            return False
        if _occurrences(reading, signs.PROJECT_WORDS) < _PROJECT_SHARE * count:
            return False
    return not _addresses(reading)


def _no_instructions(reading: Reading) -> bool:
    language = reading.prompt.language.code
    count = len(reading.word_list)
    if not has_vocabulary(language) or _has_variables(reading):
        return False
    if _addresses(reading) or reading.outline.examples:
        return False
    if any(signs.ROLE_TITLES.match(each.key) for each in reading.outline.sections):
        return False
    if count < _FEWEST_TO_JUDGE:  # so short an order may be in words that no table holds
        return _is_data(reading) or _is_poem(reading)
    if language == "en":
        opening = _first_paragraph(reading).lower()
        if _opens_with_order(reading) or _TELLS_WHAT_YOU_DO.match(opening):
            return False
        return _directed(reading) < _DIRECTED
    return _hits(reading, "asks", "you", "limits") < max(2, _SPEAKS * len(reading.words))


def _is_poem(reading: Reading) -> bool:
    """Whether short lines run on, and speak to nobody; one word may look like an order."""
    if not everyday.is_verse(reading) or _hits(reading, "you", "forms", "inputs"):
        return False
    first = reading.lowered.strip().partition("\n")[0]
    opening = concept_counts(reading.prompt.language.code, first, Counter(words(first)))
    return not opening["asks"] and _hits(reading, "asks") <= 1


def _occurrences(reading: Reading, listed: Collection[str]) -> int:
    """How often some words occur; a `Counter` is slow where a word is missing."""
    return sum(map(reading.words.get, listed, repeat(0)))


def _has_variables(reading: Reading) -> bool:
    """Whether something is filled in for certain; square brackets may be a note."""
    return any(each.style in _VARIABLES for each in reading.placeholders)


def _hits(reading: Reading, *concepts: Concept) -> int:
    once = dict.fromkeys(reading.words, 1)
    found = concept_counts(reading.prompt.language.code, reading.lowered, once)
    return sum(found[each] for each in concepts)


def _is_data(reading: Reading) -> bool:
    body = reading.prompt.body.strip()
    rows = body.split()
    sign = "," if "," in rows[0] else ";"
    columns = rows[0].count(sign)
    # Rows of values without spaces, each with as many as the first.
    if len(rows) >= 3 and columns >= 2 and all(row.count(sign) == columns for row in rows):
        return not _hits(reading, "you")
    if body[0] in "{[" and body[-1] in "}]" and is_json(body):  # prompts may be written so, too
        return not _hits(reading, "asks", "you", "forms")
    if _LEADS_IN.search(reading.prompt.body):
        return False
    blocks = reading.prompt.blocks
    lines = sum(each.end - each.start for each in blocks if each.kind != "heading")
    data = sum(each.end - each.start for each in blocks if each.kind in _DATA)
    return data > 0 and data >= 0.6 * lines and not _hits(reading, "asks", "you")


def _opens_with_order(reading: Reading) -> bool:
    """Whether the first line below the title orders something, as one line is often enough."""
    opening = words(_first_paragraph(reading).lower())[:1]
    return concept_counts("en", "", Counter(opening))["asks"] > 0


def _first_paragraph(reading: Reading) -> str:
    first = next((each for each in reading.prompt.blocks if each.kind == "paragraph"), None)
    return first.text[:_OPENING] if first else ""


def _directed(reading: Reading) -> float:
    """How much an English text orders and addresses."""
    text = "\n" + reading.lowered
    first = Counter(_FIRST_WORD.findall(text))
    orders = concept_counts("en", "", first)["asks"]
    spoken = _occurrences(reading, (*_PRESSING, *_YOU))
    starts = max(1, len(_STARTS.findall(text)))
    return orders / starts + 5 * spoken / len(reading.word_list)


def _named(reading: Reading, kind: DocumentKind) -> bool:
    return signs.DOCUMENT_NAMES[kind].search(_stem(reading)) is not None


def _stem(reading: Reading) -> str:
    name = reading.prompt.path.rpartition("/")[2].lower()
    return name.rpartition(".")[0] or name


def _phrases(reading: Reading, phrases: Collection[str]) -> int:
    text = _signed_body(reading).lower()
    return sum(phrase in text for phrase in phrases) if text else 0


@once
def _signed_body(reading: Reading) -> str:
    """The body as far as it is searched; nothing where no sign of a document is in it."""
    body = reading.prompt.body[:_LONGEST_SEARCHED]
    data = body.lower().encode("utf-8", "surrogatepass")
    return body if signs.ANY_SIGN.search(data) else ""


def _addresses(reading: Reading, end: int = _LONGEST_SEARCHED) -> bool:
    codes = {"en", reading.prompt.language.code} & signs.ADDRESSES.keys()
    return any(signs.ADDRESSES[code].search(reading.lowered, 0, end) for code in codes)


def _everyday(reading: Reading) -> DocumentKind | None:
    if everyday.is_code_or_data(reading):
        return "code"
    # Nobody may be addressed, nothing filled in, and no order come first.
    if _has_variables(reading) or _addresses(reading):
        return None
    opening = _first_paragraph(reading)
    is_label = _LABEL.match(opening) is not None
    if opening.lower().startswith("you ") or (not is_label and _opens_with_order(reading)):
        return None
    return next((kind for kind, detect in _EVERYDAY if detect(reading)), None)


_EVERYDAY: tuple[tuple[DocumentKind, Callable[[Reading], bool]], ...] = (
    ("to_do_list", everyday.is_to_do_list),
    ("minutes", everyday.is_minutes),
    ("letter", everyday.is_letter),
    ("contract", everyday.is_contract),
    ("specification", everyday.is_specification),
)
