"""The kind of a prompt file and the style of its template are found before any rule is asked."""

import pytest

from evalwright.prompts.document import Prompt
from evalwright.prompts.parse import parse_prompt


def parse(text: str, shown: str = "a.md") -> Prompt:
    return parse_prompt(text.encode(), shown)


def headed(*lines: str, body: str = "Review the change.\n") -> str:
    return "\n".join(["---", *lines, "---", body])


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        ("library_page", headed("title: Review", "description: x"), "a.md"),
        ("library_page", "# Review\n\n## Prompt\n\nReview the change.\n", "a.md"),
        ("system_prompt", "You are a reviewer. List every fault.\n", "a.md"),
        ("agent_rules", headed("description: x", "globs: **/*", "alwaysApply: false"), "a.md"),
        ("agent_rules", headed("applyTo: **"), "a.md"),
        ("agent_rules", "Use tabs.\n", "AGENTS.md"),
        ("agent_rules", "Use tabs.\n", "sub/CLAUDE.md"),
        ("agent_rules", headed("description: x"), "style.instructions.md"),
        ("skill", headed("name: review", "description: Reviews changes."), "a.md"),
        ("skill", headed("description: x", "tools: [read]", "mode: agent"), "a.md"),
        ("skill", "Review the change.\n", "review/SKILL.md"),
        ("template", "Review {{ change }} in {{ language }}.\n", "a.md"),
        ("template", "Review {change}.\n", "a.md"),
        ("chat", "system:\nYou review.\n\nuser:\n{{ change }}\n", "a.md"),
        ("chat", "<|im_start|>system\nYou review.<|im_end|>\n", "a.md"),
        ("chat", headed("model:", "  api: chat", body="system:\nYou review.\n"), "a.md"),
        ("chat", "messages:\n- role: user\n  content: Review it.\n", "a.prompt.yml"),
    ],
)
def test_the_kind_is_told_by_name_front_matter_or_text(kind, text, shown):
    assert parse(text, shown).kind == kind


@pytest.mark.parametrize(
    ("style", "text"),
    [
        ("none", "Review [the change], as in `{}`.\n"),
        ("jinja", "{% for each in changes %}{{ each }}{% endfor %}"),
        ("jinja", "Review {{ change | trim }}."),
        ("mustache", "{{#changes}}- {{name}}{{/changes}}"),
        ("mustache", "{{#if change}}{{{change}}}{{/if}}"),
        ("expression", "Review ${{ inputs.change }}."),
        ("erb", "Review <%= change %>."),
        ("double_brace", "Review {{change}}."),
        ("double_brace", "Review {{$input}}."),
        ("double_brace", "请检查 {{代码}}。"),
        ("dollar_brace", "Review ${change}."),
        ("brace", "Review {change}."),
    ],
)
def test_templates_have_one_style(style, text):
    assert parse(text).template == style
