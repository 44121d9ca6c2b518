"""A prompt file becomes front matter, blocks and placeholders, or one error that says why."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from evalwright.contracts.yaml_loader import load_yaml
from evalwright.prompts.document import Prompt, UnfitPrompt
from evalwright.prompts.front_matter import plain_fields, split_front_matter
from evalwright.prompts.markdown_blocks import INDENTED, scan_blocks
from evalwright.prompts.parse import MAX_BYTES, parse_prompt

LIBRARY = Path(__file__).parents[3] / "shared/data/prompts/library/prompts"
DOCUMENTS = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))


def parse(text: str, shown: str = "prompts/writing/summary.md") -> Prompt:
    return parse_prompt(text.encode(), shown)


def refusal(data: bytes | str, shown: str = "a.md") -> str:
    with pytest.raises(UnfitPrompt) as caught:
        parse_prompt(data.encode() if isinstance(data, str) else data, shown)
    assert caught.value.code == "invalid_input"
    return caught.value.message


def kinds(text: str) -> list[tuple[str, int, int]]:
    return [(block.kind, block.start, block.end) for block in scan_blocks(text)]


def names(text: str) -> list[tuple[str, str]]:
    return [(found.style, found.name) for found in parse(text).placeholders]


# Front matter


def test_front_matter_is_set_apart_and_the_body_keeps_its_place():
    prompt = parse("---\ntitle: Sum up\ntags: [a, b]\n---\n\n# Other\n")
    assert prompt.frontmatter == {"title": "Sum up", "tags": ["a", "b"]}
    assert prompt.text[prompt.body_offset :] == prompt.body == "\n# Other\n"
    assert [(block.kind, block.start) for block in prompt.blocks] == [("heading", 5)]


def test_a_file_without_front_matter_has_none_and_an_empty_one_is_empty():
    assert parse("Text\n").frontmatter is None
    assert parse("---\n---\nText\n").frontmatter == {}


def test_a_rule_further_down_is_no_front_matter():
    assert parse("Text\n\n---\na: b\n---\n").frontmatter is None


def test_dates_stay_text():
    frontmatter = parse("---\ndate: 2026-01-02\nat: 2026-01-02T03:04:05Z\n---\nText\n").frontmatter
    assert json.loads(json.dumps(frontmatter)) == {
        "date": "2026-01-02",
        "at": "2026-01-02T03:04:05Z",
    }


def test_a_byte_order_mark_and_windows_line_ends_are_taken():
    prompt = parse_prompt(b"\xef\xbb\xbf---\r\ntitle: T\r\n---\r\n# Head\r\n\r\nText\r\n", "a.md")
    assert prompt.title == "T"
    assert [(block.kind, block.start, block.text) for block in prompt.blocks] == [
        ("heading", 3, "Head"),
        ("paragraph", 5, "Text"),
    ]


def test_a_key_that_stands_twice_is_noted_and_the_last_counts():
    prompt = parse("---\ntitle: First\ntype: x\ntitle: Last\n---\nText\n")
    assert prompt.title == "Last"
    assert prompt.notes == (
        "line 4, column 1: front matter: duplicate key 'title'; the last one counts",
    )


@pytest.mark.parametrize(
    ("source", "fields", "says"),
    [
        (
            "globs: **/*\nalwaysApply: true",
            {"globs": "**/*", "alwaysApply": True},
            "line 2, column",
        ),
        ("applyTo: **", {"applyTo": "**"}, "line 2, column"),
        ("globs: *.ts,*.tsx", {"globs": "*.ts,*.tsx"}, "line 2, column"),
        ("title: a: b", {"title": "a: b"}, "line 2, column 9: front matter: "),
        ("tools: @a\nname: x", {"tools": "@a", "name": "x"}, "line 2, column"),
        ("ok: 1\nbad: [1", {"ok": 1, "bad": "[1"}, "line 4, column 1: front matter: "),
        ("a: |\n  one\n  two\nb: c: d", {"a": "one\ntwo\n", "b": "c: d"}, "read key by key"),
        ('说明: "甲": 乙', {"说明": '"甲": 乙'}, "read key by key"),
        ("1: x\nname: y", {"name": "y"}, "the key 1 is not a string"),
    ],
)
def test_front_matter_that_is_no_yaml_is_read_key_by_key_and_a_note_says_so(source, fields, says):
    prompt = parse(f"---\n{source}\n---\nText\n")
    assert (prompt.frontmatter, prompt.body) == (fields, "Text\n")
    assert says in prompt.notes[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("---\n- a\n- b\n---\nText\n", "line 2: there is no `key: value`"),
        ("---\njust words\n---\nText\n", "line 2: there is no `key: value`"),
        ("---\ntitle: x\n\nText\n", "line 1: the front matter is not closed"),
    ],
)
def test_what_only_looks_like_front_matter_is_text(text, says):
    prompt = parse(text)
    assert (prompt.frontmatter, prompt.body) == (None, text)
    assert says in prompt.notes[0]


def test_front_matter_alone_is_no_prompt():
    assert "no prompt below it" in refusal("---\ntitle: x\n---\n\n")


def test_aliases_that_multiply_are_not_expanded():
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 9))
    prompt = parse(f"---\nl0: &l0 [1]\n{levels}\n---\nText\n")
    assert "aliases" in prompt.notes[0]
    assert len(json.dumps(prompt.frontmatter)) < 1000


# Bytes that are no text


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "the file is empty"),
        (b" \n\t\n", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b"fine\nna\xefve\n", "not UTF-8: byte 7 (0xef, line 2)"),
        (b"PK\x03\x00rest", "not a text file: byte 3 is zero: give a file of text in UTF-8"),
        ("Sort it.".encode("utf-16"), "the file is UTF-16: save it as UTF-8, as with `iconv"),
        ("Sort it.".encode("utf-16-le"), "if it is UTF-16, save it as UTF-8"),
        (b"a" * (MAX_BYTES + 1), "at most 5,242,880 are read"),
    ],
)
def test_what_is_no_text_is_refused(data, says):
    assert says in refusal(data)


def test_another_type_is_refused():
    assert "a.py" in refusal("Text", "a.py")


@pytest.mark.parametrize(
    "name",
    ["a.mdc", "a.txt", "a.prompt", "a.prompty", "a.jinja2", "SKILL.md", "x/.cursorrules"],
)
def test_other_formats_of_prompts_are_read_as_markdown(name):
    prompt = parse("---\nname: x\n---\nReview the change.\n", name)
    assert (prompt.type, prompt.frontmatter, prompt.body) == (
        "markdown",
        {"name": "x"},
        "Review the change.\n",
    )


# Title and category


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: ' Stated '\n---\n# Heading\n", "Stated"),
        (
            "---\ntitle: ''\n---\nText\n\n## The **first** heading ##\n\n# Later\n",
            "The first heading",
        ),
        ("---\ntitle: [a]\n---\nSet\nin two\n===\n", "Set in two"),
        ("```\n# not a heading\n```\n", "Weekly report draft"),
    ],
)
def test_the_title_is_stated_else_the_first_heading_else_the_name_in_words(text, title):
    assert parse(text, "x/weekly-report_draft.md").title == title


@pytest.mark.parametrize(
    ("shown", "category"),
    [
        ("prompts/business/a.md", "business"),
        ("lib/prompts/business/deep/a.md", "business"),
        ("prompts/a.md", "prompts"),
        ("notes/a.md", "notes"),
        ("../a.md", "uncategorized"),
        ("a.md", "uncategorized"),
        ("-", "uncategorized"),
    ],
)
def test_the_category_comes_from_the_folder(shown, category):
    assert parse("Text\n", shown).category == category


def test_a_stated_category_comes_first():
    assert parse("---\ncategory: law\n---\nText\n").category == "law"


# Prompt YAML

CONVERSATION = """\
name: Größe schätzen
model: some/model
messages:
  - role: system
    content: You are terse.
  - role: user
    content: |
      # Task

      Estimate {{thing}}.
testData:
  - thing: "{{not a variable}}"
"""


def test_a_prompt_file_is_read_as_its_conversation():
    prompt = parse(CONVERSATION, "evals/size.prompt.yml")
    assert (prompt.type, prompt.title, prompt.category) == (
        "prompt_yaml",
        "Größe schätzen",
        "evals",
    )
    assert prompt.body == "system:\nYou are terse.\n\nuser:\n# Task\n\nEstimate {{thing}}.\n"
    assert prompt.frontmatter is not None
    assert prompt.frontmatter["testData"] == [{"thing": "{{not a variable}}"}]


def test_places_in_a_prompt_file_are_those_of_the_file():
    prompt = parse(CONVERSATION, "size.prompt.yml")
    [thing] = prompt.placeholders
    assert prompt.text[thing.offset :].startswith("{{thing}}")
    assert [(block.kind, block.start) for block in prompt.blocks] == [
        ("paragraph", 4),
        ("heading", 7),
        ("paragraph", 9),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a\n", "a mapping with `messages`"),
        ("name: x\n", "`messages` is missing"),
        ("messages: []\n", "`messages` is missing"),
        ("messages: [{role: user}]\n", "message 1: needs a `role` and a `content`"),
        ("messages: [hello]\n", "message 1"),
        ("messages: [\n", "line 2, column 1: prompt file: "),
    ],
)
def test_a_prompt_file_without_messages_is_refused(text, says):
    assert says in refusal(text, "a.prompt.yml")


# Blocks


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("# One\n\nTwo\n---\n", [("heading", 0, 1), ("heading", 2, 4)]),
        ("a\nb\n\nc\n", [("paragraph", 0, 2), ("paragraph", 3, 4)]),
        ("- a\n  b\n- c\n", [("list_item", 0, 2), ("list_item", 2, 3)]),
        ("1. a\n   - b\n", [("list_item", 0, 1), ("list_item", 1, 2)]),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n", [("table", 0, 3)]),
        ("> a\nlazy\n\nb\n", [("quote", 0, 2), ("paragraph", 3, 4)]),
        ("<div>\n# x\n</div>\n\ny\n", [("html", 0, 3), ("paragraph", 4, 5)]),
        ("<!-- a\n\nb -->\nc\n", [("html", 0, 3), ("paragraph", 3, 4)]),
        (
            "- > a\n- # b\n",
            [("list_item", 0, 1), ("quote", 0, 1), ("list_item", 1, 2), ("heading", 1, 2)],
        ),
    ],
)
def test_blocks_stand_on_their_lines(text, blocks):
    assert kinds(text) == blocks


def test_the_depth_of_an_item_and_the_level_of_a_heading_are_told():
    blocks = scan_blocks("### H ###\n\n- a\n  - b\n    1. c\n- d\n")
    assert [(block.text, block.level) for block in blocks] == [
        ("H", 3),
        ("a", 1),
        ("b", 2),
        ("c", 3),
        ("d", 1),
    ]


def test_fences_hold_what_looks_like_markdown():
    [fence] = scan_blocks("````markdown title\n# no\n```\n- no\n````\n")
    assert (fence.text, fence.info, fence.closed) == ("# no\n```\n- no", "markdown title", True)


def test_tildes_fence_too_and_backticks_do_not_close_them():
    [fence] = scan_blocks("~~~\n```\n~~~\n")
    assert fence.closed


@pytest.mark.parametrize("text", ["```\na\n", "```\na\n``\n", "```\na\n``` x\n", "- ```\n  a\nb\n"])
def test_a_fence_without_its_end_is_known(text):
    assert [block.closed for block in scan_blocks(text) if block.kind == "fence"] == [False]


def test_code_that_is_indented_is_a_fence_of_its_own_kind():
    [_, code] = scan_blocks("a\n\n    {b}\n\n    c\n")
    assert (code.kind, code.info, code.start, code.end) == ("fence", INDENTED, 2, 5)


# Blocks, against a full parser

_PARSER = MarkdownIt("commonmark").enable("table")
_PARSER.core.ruler.enableOnly(["normalize", "block"])
_KINDS = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "fence": "fence",
    "code_block": "fence",
    "html_block": "html",
    "table_open": "table",
    "list_item_open": "list_item",
    "blockquote_open": "quote",
}


def peer_blocks(text: str) -> list[tuple[str, int, int]]:
    """What markdown-it-py finds, laid out as here: an item by its first lines, a quote whole."""
    found: list[tuple[str, int, int]] = []
    quotes = 0
    item = -1  # the line of the item that has just begun
    for token in _PARSER.parse(text):
        quotes -= token.type == "blockquote_close"
        if quotes == 0 and token.type in _KINDS and token.map is not None:
            start, end = token.map
            kind = _KINDS[token.type]
            if kind == "list_item":
                end = start + 1
            elif kind == "paragraph" and item == start:
                found.pop()
                kind = "list_item"
            item = start if token.type == "list_item_open" else -1
            found.append((kind, start, end))
        quotes += token.type == "blockquote_open"
    return found


def body_of(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return text[text.index("\n---", 3) + 4 :] if text.startswith("---\n") else text


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_blocks_of_real_documents_are_those_of_a_full_parser(path):
    assert kinds(body_of(path)) == peer_blocks(body_of(path))


@pytest.mark.skipif(not LIBRARY.is_dir(), reason="the prompt library is not on this machine")
def test_the_blocks_of_a_prompt_library_are_those_of_a_full_parser():
    for path in LIBRARY.rglob("*.md"):
        assert kinds(body_of(path)) == peer_blocks(body_of(path)), path.name


LINES = ["# Head", "text here", "more | text", "- item", "  - nested", "* star", "1. one", "2. two"]
LINES += [
    "```",
    "```py",
    "~~~",
    "",
    "> quote",
    "| a | b |",
    "|---|---|",
    "| 1 | 2 |",
    "<div>",
    "---",
]
LINES += ["</div>", "<!-- c -->", "***", "===", "  more", "   ```", "<name>", "- ```", "- > q"]


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=5).map("\n".join))
def test_any_few_lines_are_the_blocks_of_a_full_parser(text):
    assert kinds(text + "\n") == peer_blocks(text + "\n")


# Placeholders


@pytest.mark.parametrize(
    ("text", "style", "name"),
    [
        ("Sum up {{ report }}.", "{{}}", "report"),
        ("Sum up {{user.name}}.", "{{}}", "user.name"),
        ("Sum up [REPORT_TEXT].", "[]", "REPORT_TEXT"),
        ("Sum up [Your report here]: now", "[]", "Your report here"),
        ("Sum up ${report}.", "${}", "report"),
        ("Sum up <report>.", "<>", "report"),
        ("Sum up <paste the report here>.", "<>", "paste the report here"),
        ("Sum up {report}.", "{}", "report"),
        ("```text\nSum up [report]\n```", "[]", "report"),
        ("```\nSum up {report}\n```", "{}", "report"),
        ("- `[report]`: what to sum up", "[]", "report"),
        ('```json\n{"text": "{{report}}"}\n```', "{{}}", "report"),
    ],
)
def test_a_placeholder_is_found_with_its_style(text, style, name):
    assert names(text) == [(style, name)]


@pytest.mark.parametrize(
    "text",
    [
        "A [link](http://a.example), an ![image](a.png), a [reference][one].",
        "[one]: https://a.example/",
        "- [ ] open\n- [x] done\n- [X] done",
        "As shown [1], [12], [^note], [Smith et al., 2020], [Doc_1, Doc_3] and [RFC 2119].",
        "Answer [Yes/No] or [high/medium/low].",
        "[TODO] and [sic] and [N].",
        "values[index] and f(x)[key]",
        "<b>bold</b>, <br>, <br/>, <div align='center'>, <details>",
        "<answer>\nwrite it here\n</answer>",
        "List<String> and a <= b > c and <https://a.example>",
        'Give {"name": "x"}, {} or {a: 1} and GET /users/{id}/posts',
        "The set {1, 2} and the regex a{2}",
        "```python\nprint(f'{name}', data[key], List[Name], <thing>)\n```",
        "    code {name} <thing> [value]",
        "Call `render({name})` with `<thing>` and `list[Name]`.",
    ],
)
def test_what_only_looks_like_a_placeholder_is_none(text):
    assert names(text) == []


# For any input

texts = st.text("ab \n\t-*#`~>|<[]{}$:.1é\r", max_size=80)
headed = st.builds("---\n{}\n---\n{}".format, texts, texts)
conversations = st.builds('messages:\n- role: user\n  content: "{}"\n{}'.format, texts, texts)


def parsed_or_refused(data: bytes, shown: str) -> Prompt | UnfitPrompt:
    try:
        return parse_prompt(data, shown)
    except UnfitPrompt as unfit:
        return unfit


@given(
    st.binary(max_size=80) | (texts | headed | conversations).map(str.encode),
    st.sampled_from(["a.md", "a.prompt.yml", "-"]),
)
def test_any_bytes_are_parsed_or_refused_and_places_are_inside_the_text(data, shown):
    prompt = parsed_or_refused(data, shown)
    if isinstance(prompt, UnfitPrompt):
        assert prompt.code == "invalid_input"
        return
    assert prompt.title
    assert prompt.category
    lines = prompt.text.count("\n") + 1
    assert all(0 <= block.start < block.end <= lines for block in prompt.blocks)
    assert all(prompt.text[found.offset] == found.style[0] for found in prompt.placeholders)
    json.dumps(prompt.frontmatter)


@pytest.mark.parametrize(
    "text",
    [
        *("- + " * 50_000 + "x", "> " * 50_000, "# a" + " " * 200_000 + "b", "`a " * 100_000),
        *("<ab" * 50_000, "<ab> " * 50_000 + "</x>", "[a" * 100_000, "|" * 100_000 + "\n|-"),
        *("- a\n" * 50_000, "```\n" * 50_000, "{{a}}" * 50_000, "<a " + "b " * 100_000),
    ],
    ids=lambda text: text[:6],
)
def test_text_made_to_be_slow_or_deep_is_parsed_as_any_other(text):
    assert parse(text).blocks


PLAIN_WORDS = st.sampled_from(
    ["Review", "null", "True", "no", "a (b)", "a, b ", "x - y", "v1.2", "e.g.", "a/b", "..", "-1"]
)


@given(st.dictionaries(PLAIN_WORDS, PLAIN_WORDS, min_size=1, max_size=3))
def test_front_matter_of_plain_words_means_what_yaml_says(fields):
    source = "".join(f"{key}: {value}\n" for key, value in fields.items())
    try:
        expected = load_yaml(source)
    except yaml.YAMLError:
        return  # it is read key by key
    assert split_front_matter(f"---\n{source}---\nHello")[0] == expected


def test_of_a_key_that_is_there_twice_the_last_value_counts():
    read, _, notes = split_front_matter("---\ntitle: One\ntitle: Two\n---\nHello")
    assert read == {"title": "Two"}
    assert "the last one counts" in notes[0]


_SCALARS = st.sampled_from(
    [
        *(
            "two words",
            "it's fine, or (not)",
            "Größe – 中文",
            "true",
            "null",
            "yes",
            "a: b",
            "a #b",
        ),
        *('"quoted: text"', "'single # quoted'", '"with \\n escape"', "'it''s'", '""', "''"),
        *("12", "007", "1.50", "2.", "1e3", "0x1f", "2024-01-31", "1.2.3", "-5", "[]", "[a, b]"),
        *("5-years", "7 years ", "12 e10", "1.2.3.4.5", "/a/b ", "/a: b", "2024-01-31 noon"),
        *("first line\n  second line", "first\n\n  third", "*x", "&x y", "!t y", "|\n  text", ""),
        *("trailing  ", "tab\there", "bell\x07", "no\u2028break", "emoji 🎉", "{a: b}", "- x"),
    ]
)
_LINES = st.one_of(
    st.builds("{}: {}\n".format, st.sampled_from(["title", "tags", "a-b", "null", "1"]), _SCALARS),
    st.builds("{}- {}\n".format, st.sampled_from(["", "  ", "    ", "      "]), _SCALARS),
    st.sampled_from(["tags:\n", "list:\n", "  list: x\n", "# note\n", "\n", "-\n", "name:x\n"]),
)


@given(st.lists(_LINES, min_size=1, max_size=6).map("".join))
def test_plain_front_matter_is_read_as_yaml_reads_it(source):
    read = plain_fields(source)

    if read is not None:
        expected = load_yaml(source)
        assert read == expected
        assert repr(read) == repr(expected)  # also in the kinds of its numbers


def test_lists_texts_numbers_and_dates_are_plain_front_matter():
    source = (
        "title: Code review\nintro: Finds what is wrong,\n  and says so\ntags:\n- one\n- 'two'\n"
        'audience:\n  - "people: all"\nversion: 1.5\nyear: 2026\ndate: 2026-01-31\n'
        "release: 1.5.2\nkept: 5-years\nnext: /prompts/review\n"
    )

    assert plain_fields(source) == {
        "title": "Code review",
        "intro": "Finds what is wrong, and says so",
        "tags": ["one", "two"],
        "audience": ["people: all"],
        "version": 1.5,
        "year": 2026,
        "date": "2026-01-31",
        "release": "1.5.2",
        "kept": "5-years",
        "next": "/prompts/review",
    }
