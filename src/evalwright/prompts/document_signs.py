"""Signs of documents that are no prompts, in many languages, and of a text that speaks to a model.

All are looked for in lower case, unless a pattern says otherwise.
"""

import re
from typing import Literal

from evalwright.signals.patterns import quick_pattern, when_used
from evalwright.signals.word_tables import either, word_tables

DocumentKind = Literal[
    "scaffold",
    "lorem_ipsum",
    "keyword_salad",
    "licence",
    "code_of_conduct",
    "changelog",
    "log",
    "community",
    "decision_record",
    "readme",
    "recipe",
    "code",
    "to_do_list",
    "minutes",
    "letter",
    "contract",
    "specification",
    "no_instructions",
]
_TABLES = word_tables(__file__)
# What each kind is called in a sentence: “Not a prompt but …”.
DESCRIPTIONS = {kind: name for kind, [name] in _TABLES["kinds"].items()}
# Documents that belong to a project: in a folder they are passed over. The others were meant to be
# prompts, or nobody can tell, and fail.
PASSED_OVER: frozenset[DocumentKind] = frozenset(
    {
        *("licence", "code_of_conduct", "changelog", "log", "community", "decision_record"),
        *("readme", "recipe", "code", "to_do_list", "minutes", "letter", "contract"),
        "specification",
    }
)
# How a text addresses a model, for each language.
ADDRESSES = {
    code: when_used(either(row) if anywhere else rf"\b(?:{either(row)})")
    for (code, _, anywhere), row in (
        (name.partition(" "), row) for name, row in _TABLES["addresses"].items()
    )
}
ROLE_TITLES = when_used(rf"^(?:{either(_TABLES['titles']['role'])})\b")
# A file that calls itself one is no document of another kind.
_LOG, _DECISION, _LICENCE, _PROMPT = map(either, _TABLES["lines"].values())
PROMPT_NAMES = when_used(rf"(?:^|[-_. ])(?:{_PROMPT})(?:[-_. ]?v?\d+)?$")
# Where people look for what a tool does, unless a folder below holds what models are told.
DOCS_FOLDER = when_used(
    r"(?:^|/)(?:docs?|documentation)/(?![^\n]*(?:prompt|agent|skill|rule|instruct)[^/\n]*/)"
)
_LOCALE = r"(?:[-_. ](?:[a-z]{2,3}|[a-z]{2}[-_][a-z]{2,4}))?$"
# Names that leave no doubt, and those that need other signs beside them.
DOCUMENT_NAMES: dict[DocumentKind, re.Pattern[str]] = {
    "licence": when_used(rf"^(?:licen[sc]e|copying|unlicense){_LOCALE}"),
    "code_of_conduct": when_used(rf"^code[-_ ]?of[-_ ]?conduct{_LOCALE}"),
    "changelog": when_used(rf"^change[-_ ]?log{_LOCALE}"),
    "readme": when_used(rf"^read[-_ ]?me{_LOCALE}"),
    "community": when_used(
        rf"^(?:contributing|contributors|security|support|governance|maintainers){_LOCALE}"
    ),
}
README_OF = when_used(rf"[-_. ]read[-_ ]?me{_LOCALE}")

LICENCE_PHRASES, CONDUCT_PHRASES, COMMUNITY_PHRASES = _TABLES["phrases"].values()
LICENCE_TITLE = when_used(_LICENCE)
DECISION_TITLES = when_used(rf"^(?:{_DECISION})\b")
README_TITLES = when_used(rf"^(?:{either(_TABLES['titles']['readme'])})\b")
ENDPOINT = when_used(r"(?:get|post|put|patch|delete|head|options) /")
BADGE = when_used(
    r"\[!\[[^\]\n]{0,200}\]\(|<img [^>\n]{0,400}(?:badge|shields\.io|\.svg)", re.IGNORECASE
)
_INSTALLS = (
    r"[ \t$>]*(?:pip3?|npm|yarn|pnpm|brew|cargo|go|apt(?:-get)?|docker|git|gem|composer|uv|make"
    r"|conda|npx)"
    r" (?:install|add|i|get|clone|run|pull|build|test|init|-)"
)
INSTALL_COMMAND = when_used(rf"^{_INSTALLS}\b", re.MULTILINE)
_DIGIT_ELSEWHERE = rb"[\xd9\xdb\xdf\xe0\xe1\xea\xef]|\xf0[\x90-\x9e]|\xf0\x9f\xaf"  # in UTF-8
# What is in every text, in lower case, that holds a phrase, a badge, a command or a release.
ANY_SIGN = quick_pattern(
    rb"|".join(
        (
            *(
                re.escape(each).encode()
                for each in sorted({*LICENCE_PHRASES, *CONDUCT_PHRASES, *COMMUNITY_PHRASES})
            ),
            rb"\[!\[|<img ",
            f"(?m:^){_INSTALLS}".encode(),
            rb"(?m:^)(?:#{1,4}[ \t]*)?\[?v?(?:\d{1,4}\.[\d\x80-\xff]|%b)" % _DIGIT_ELSEWHERE,
            rb"(?m:^)#{1,4}[ \t]*\[?unreleased",
        )
    )
)
PROJECT_WORDS, LOREM_WORDS, JARGON_WORDS = map(frozenset, _TABLES["words"].values())
RELEASE_HEADING = when_used(
    r"^(?:#{1,4}[ \t]*)?\[?v?\d{1,4}\.\d{1,4}(?:\.\d{1,4})?[\w.+-]{0,20}\]?(?:\([^)\n]{0,200}\))?"
    r"[ \t]*(?:[-–—(:/][ \t]*|$)|^#{1,4}[ \t]*\[?(?:unreleased|v?\d{1,4}\.\d{1,4})",
    re.MULTILINE | re.IGNORECASE,
)
LOG_LINE = when_used(rf"^\s*(?:{_LOG})")
RECIPE_WORDS, _UNITS = _TABLES["recipes"].values()
QUANTITY_LINE = when_used(
    r"^[ \t]*[-*+•・●]?[ \t]*(?:[\d½¼¾⅓/.,-]{1,8}|[一二三四五六七八九十半两]{1,3}|大さじ|小さじ)"
    rf"[ \t]*\d{{0,3}}[ \t]*(?:{either(_UNITS)})",
    re.MULTILINE | re.IGNORECASE,
)
RECIPE_TITLES = when_used(rf"^(?:{either(RECIPE_WORDS)})(?:s|es|i)?\b")
# What is left for somebody to write: a text without any of the signs has no such mark, and each
# mark holds one of the parts.
_SIGNS, _MARKS, FILL_IN_PARTS = _TABLES["fill in"].values()
ANY_FILL_IN = quick_pattern(either(_SIGNS).encode())
FILL_IN_MARK = when_used(either(_MARKS))
# The title of a file, if nobody has chosen one yet: `Role: Your_Role_Name`, `[Prompt title]`.
BLANK_TITLE = when_used(
    r"(?:^|[\s:])(?:your_)?[a-z]+_name$|^(?:\[[^\[\]]+\s[^\[\]]+\]|<[^<>]+\s[^<>]+>"
    r"|\{[^{}]+\s[^{}]+\})$"
)
BLANKS = when_used(
    r"<!--.{0,2000}?-->|\[[^\[\]\n]{0,120}\]|<[^<>\n]{1,120}>|\{\{[^{}\n]{0,120}\}\}"
    r"|^[ \t]*#{1,6}[^\n]*$|^[ \t]*(?:```|~~~)[^\n]*$"
    r"|(?:^[ \t>*+-]*|[:：|(\[][ \t]*)(?:todo|tbd|tba|fixme|xxx+|n/a)\b[^\n]*"
    r"|[|:_*.-]{3,}",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
