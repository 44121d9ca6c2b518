"""What kind of prompt a file is, and in which style its template is written.

The kind decides which rules are about a file: a page of a library has front matter with a title,
rules for a coding agent have none, a template is filled in by a program.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Literal

from evalwright.contracts.prompt_result import InputType
from evalwright.signals.patterns import when_used
from evalwright.signals.word_tables import text_tables

PromptKind = Literal[
    "library_page",  # a page about a prompt, or with front matter such as a title
    "system_prompt",  # the text that a model reads, and nothing else
    "agent_rules",  # for a coding agent: Cursor rules, AGENTS.md, *.instructions.md
    "skill",  # what an agent loads by its name and description: skills, agents, commands
    "template",  # that a program fills in
    "chat",  # messages with roles
]
TemplateStyle = Literal[
    "jinja",  # {% if %}, {{ name | upper }}
    "mustache",  # {{#each}}, {{{name}}}; also Handlebars
    "expression",  # ${{ name }}
    "erb",  # <%= name %>
    "double_brace",  # {{name}}, {{$name}}
    "dollar_brace",  # ${name}
    "brace",  # {name}
    "none",
]

_FILES, _KEYS = text_tables(__file__).values()
_RULES_FILES, OTHER_FORMATS, _RULES_SUFFIXES, _SKILL_SUFFIXES, _TEMPLATE_SUFFIXES = (
    tuple(row.split()) for row in _FILES.values()
)
_RULES_KEYS, _SKILL_KEYS, _PAGE_KEYS, _CALL_KEYS = (
    frozenset(row.split()) for row in _KEYS.values()
)
# Keys of formats that say what they need.
KNOWN_KEYS = _RULES_KEYS | _SKILL_KEYS | _PAGE_KEYS | {"name", "description", "model", "version"}
_OPENING = 300  # characters in which a chat shows its first role
_CORE_HEADING = when_used(
    r"^#{2,6}[ \t]+(?:The |Full |System |Main )?Prompt(?: Template)?\b", re.MULTILINE
)
_ROLE_LINE = when_used(
    r"^[ \t]*(?:#{1,6}[ \t]*)?(?:\*\*)?(?:system|user|assistant|developer)(?:\*\*)?[ \t]*:"
    r"[ \t]*(?:\*\*)?[ \t\r]*$"
    r"|<\|(?:im_start|start_header_id)\|>[ \t]*(?:system|user|assistant)"
    r"|\{\{[ \t]*role[ \t]+[\"'](?:system|user|model|assistant)[\"'][ \t]*\}\}"
    r"|<message role=\"(?:system|user|assistant)\"|\{\{#(?:system|user|assistant)~?\}\}"
    r"|\[/?INST\]|<<SYS>>",
    re.MULTILINE,
)
# Each with a sign, often a single letter, without which there is no need to search.
_STYLES: tuple[tuple[TemplateStyle, str, re.Pattern[str]], ...] = (
    ("jinja", "%", when_used(r"\{%[-+~]?[ \t]*[a-z]+\b[^%\n]{0,200}%\}")),
    ("expression", "$", when_used(r"\$\{\{[^{}\n]{1,200}\}\}")),
    ("mustache", "{{", when_used(r"\{\{~?[#/^>!&][^{}\n]{0,200}\}\}|\{\{\{[^{}\n]{1,200}\}\}\}")),
    ("jinja", "|", when_used(r"\{\{[-~]?[ \t]*[\w.\[\]'\"]{1,80}[ \t]*\|[^{}\n]{1,200}\}\}")),
    ("jinja", "{#", when_used(r"\{#[^#\n]{0,200}#\}")),
    ("erb", "%", when_used(r"<%[=-]?[^%\n]{1,200}%>")),
    ("double_brace", "{{", when_used(r"\{\{[-~]?[ \t]*\$?[^\W\d][^{}\n]{0,80}\}\}")),
)
_STYLE_OF_PLACEHOLDERS: tuple[tuple[str, TemplateStyle], ...] = (
    ("${}", "dollar_brace"),
    ("{}", "brace"),
)


def template_style(body: str, placeholder_styles: Collection[str]) -> TemplateStyle:
    """The style of the templating that is meant to fill a text in; `none` if there is none."""
    if "{" in body or "<%" in body:
        for style, sign, pattern in _STYLES:
            if sign in body and pattern.search(body):
                return style
    for brackets, style in _STYLE_OF_PLACEHOLDERS:
        if brackets in placeholder_styles:
            return style
    return "none"


def prompt_kind(
    shown: str,
    input_type: InputType,
    frontmatter: Mapping[str, Any] | None,
    body: str,
    style: TemplateStyle,
) -> PromptKind:
    """The kind of a file: by its name, its front matter, or else its text."""
    if input_type == "prompt_yaml":
        return "chat"
    name = shown.rpartition("/")[2].lower()
    if name == "skill.md" or name.endswith(_SKILL_SUFFIXES):
        return "skill"
    if name in _RULES_FILES or name.endswith(_RULES_SUFFIXES):
        return "agent_rules"
    if name.endswith(".prompty"):
        return "chat"
    if frontmatter:
        keys = frontmatter.keys()
        if keys & _RULES_KEYS:
            return "agent_rules"
        if keys & _CALL_KEYS or isinstance(frontmatter.get("model"), dict):
            return "chat" if _ROLE_LINE.search(body) else "template"
        pages, skills = len(keys & _PAGE_KEYS), len(keys & _SKILL_KEYS)
        named = {"name", "description"} <= keys
        if skills > pages or (named and (skills or not pages) and "title" not in keys):
            return "skill"
        if not pages and keys <= {"description", "name", "model"} | _SKILL_KEYS:
            return "skill"
        return "library_page"
    if _ROLE_LINE.search(body[:_OPENING]):
        return "chat"
    if _CORE_HEADING.search(body):
        return "library_page"
    is_template = style != "none" or name.endswith(_TEMPLATE_SUFFIXES)
    return "template" if is_template else "system_prompt"
