"""Which files below a folder are prompts, and what is said of the others."""

import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.prompts.document import UnfitPrompt
from evalwright.prompts.parse import MAX_BYTES
from evalwright.prompts.sources import (
    DiscoveredFile,
    PromptSearch,
    discover,
    passed_over_in_words,
    read_bytes,
    read_prompt,
)

PROMPT = "# Summarise\n\nSummarise the report in three sentences.\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, *names: str, text: str = PROMPT) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def shown(*paths: str | Path) -> list[str]:
    return [each.shown for each in discover([Path(path) for path in paths])]


def only(path: str | Path) -> DiscoveredFile:
    [found] = discover([Path(path)])
    return found


def test_markdown_and_prompt_yaml_are_found_at_every_depth(folder):
    write(folder, "p/a.md", "p/b/c/d.md", "p/e.prompt.yml", "p/f.prompt.yaml")
    assert shown("p") == ["p/a.md", "p/b/c/d.md", "p/e.prompt.yml", "p/f.prompt.yaml"]


def test_other_files_are_passed_over(folder):
    write(folder, "p/a.md", "p/notes.txt", "p/settings.yml", "p/prompt.yml", "p/a.md.bak")
    assert shown("p") == ["p/a.md"]


OTHER_FORMATS = [
    *("p/.cursor/rules/a.mdc", "p/b.txt", "p/c.prompt", "p/d.prompty", "p/e.jinja2"),
    *("p/f.agent.md", "p/g.instructions.md", "p/.cursorrules"),
]


def test_what_a_folder_passes_over_is_named(folder):
    others = ["p/README.md", "p/archive/old.md", *OTHER_FORMATS]
    write(folder, "p/a.md", "p/code.py", *others)
    search = PromptSearch()
    assert [each.shown for each in discover([Path("p")], search)] == ["p/a.md"]
    assert search.passed_over == sorted([*OTHER_FORMATS, "p/README.md", "p/archive/"])
    assert passed_over_in_words(search.passed_over).startswith("10 files (p/.cursor/rules/a.mdc, ")
    assert "and 5 more); --all-kinds" in passed_over_in_words(search.passed_over)


def test_all_kinds_are_found_where_they_are_asked_for(folder):
    write(folder, "p/a.md", "p/README.md", "p/requirements.txt", "p/node_modules/x.md")
    write(folder, *OTHER_FORMATS)
    search = PromptSearch(all_kinds=True)
    found = [each.shown for each in discover([Path("p")], search)]
    assert found == sorted(["p/a.md", *OTHER_FORMATS])
    assert search.passed_over == ["p/README.md", "p/node_modules/", "p/requirements.txt"]


@pytest.mark.parametrize("name", OTHER_FORMATS)
def test_a_file_of_another_format_is_read_if_it_is_named(folder, name):
    write(folder, name)
    found = only(name)
    assert (found.error, found.named) == (None, True)


def test_a_file_that_is_named_was_not_passed_over(folder):
    write(folder, "p/a.md", "p/b.txt")
    search = PromptSearch()
    assert len(list(discover([Path("p"), Path("p/b.txt")], search))) == 2
    assert search.passed_over == []


@pytest.mark.parametrize(
    "name",
    [
        *("README.md", "readme.md", "Index.md", "index.md", "x.agent.md", "x.instructions.md"),
        *("archive/x.md", "_archive/x.md", "deep/Archive/deeper/x.md", "archive/x.prompt.yml"),
    ],
)
def test_files_that_are_no_prompts_are_left_out(folder, name):
    write(folder, f"p/{name}", "p/kept.md")
    assert shown("p") == ["p/kept.md"]


@pytest.mark.parametrize(
    "name",
    [
        "archives/x.md",
        "my_archive/x.md",
        "archive.md",
        "readme-writer.md",
        "agent.md",
        "reindex.md",
    ],
)
def test_names_that_only_resemble_those_are_kept(folder, name):
    write(folder, f"p/{name}")
    assert shown("p") == [f"p/{name}"]


def test_an_archive_around_the_named_folder_does_not_count(folder):
    write(folder, "archive/p/a.md")
    assert shown("archive/p") == ["archive/p/a.md"]
    assert shown("archive") == ["archive/p/a.md"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("report-template.md", PROMPT),
        ("scaffold.md", PROMPT),
        ("report.md", "---\ntitle: Report\ntype: template\n---\n" + PROMPT),
        ("report.md", "---\ntitle: Report\ntags: [scaffold, draft]\n---\n" + PROMPT),
        ("report.md", "---\ntemplate: true\n---\n" + PROMPT),
        ("report.md", "# Report\n\n[Your title]\n\n- {{first}}\n- {{ second }}\n"),
    ],
)
def test_scaffolds_in_templates_are_left_out(folder, name, text):
    write(folder, f"p/templates/{name}", text=text)
    assert shown("p") == []


def test_prompts_in_templates_and_templates_elsewhere_are_kept(folder):
    write(folder, "p/templates/summary.md", "p/letter-template.md")
    write(folder, "p/templates/mixed.md", text="Summarise {{report}} in three sentences.\n")
    assert shown("p") == ["p/letter-template.md", "p/templates/mixed.md", "p/templates/summary.md"]


def test_a_broken_file_in_templates_is_kept_for_its_error_to_be_shown(folder):
    write(folder, "p/templates/broken.md", text="---\n- a list\n---\nText\n")
    assert shown("p") == ["p/templates/broken.md"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("p/README.md", "README.md"),
        ("p/x.agent.md", "*.agent.md"),
        ("p/archive/x.md", "archive/"),
        ("p/templates/letter-template.md", "scaffold"),
    ],
)
def test_a_named_file_is_evaluated_with_a_note_why_it_would_be_left_out(folder, name, reason):
    write(folder, name)
    found = only(name)
    assert found.error is None
    assert found.note is not None
    assert reason in found.note
    assert read_prompt(found).notes == (found.note,)


def test_the_note_stays_when_the_folder_is_named_too(folder):
    write(folder, "p/README.md", "p/a.md")
    found = list(discover([Path("p"), Path("p/README.md")]))
    assert [(each.shown, each.note is not None) for each in found] == [
        ("p/README.md", True),
        ("p/a.md", False),
    ]


def test_a_file_that_is_reached_on_several_ways_is_found_once(folder):
    write(folder, "p/q/a.md")
    (folder / "link").symlink_to(folder / "p")
    assert shown("p", "p/q", "./p/q/a.md", folder / "p", "p/../p") == ["p/q/a.md"]
    assert len(shown("p", "link")) == 1


def test_paths_are_shown_relative_to_the_working_directory_else_as_given(folder, monkeypatch):
    write(folder, "here/a.md", "there/b.md")
    monkeypatch.chdir(folder / "here")
    assert shown(".") == ["a.md"]
    assert shown(folder / "here") == ["a.md"]
    assert shown("../there") == ["../there/b.md"]
    assert shown(folder / "there") == [(folder / "there/b.md").as_posix()]


def test_a_missing_path_is_an_error_that_names_it(folder):
    error = only("nowhere/a.md").error
    assert error is not None
    assert error.code == "file_not_found"
    assert "nowhere/a.md" in error.message


@pytest.mark.parametrize("name", ["a.py", "settings.yml", "LICENSE"])
def test_a_named_file_of_another_type_is_an_error_that_says_what_is_read(folder, name):
    write(folder, name)
    error = only(name).error
    assert error is not None
    assert error.code == "invalid_input"
    assert name in error.message
    assert ".prompt.yml" in error.message


def test_yaml_with_prompt_in_its_name_may_be_named(folder):
    write(folder, "my_prompts.yml", text="messages: [{role: user, content: Hi}]\n")
    assert read_prompt(only("my_prompts.yml")).type == "prompt_yaml"


def test_a_link_to_itself_is_an_error(folder):
    write(folder, "p/a.md")
    (folder / "p/loop.md").symlink_to("loop.md")
    found = {each.shown: each.error for each in discover([Path("p")])}
    assert found["p/a.md"] is None
    assert found["p/loop.md"] is not None
    assert found["p/loop.md"].code == "invalid_input"


def test_a_dangling_link_is_a_missing_file(folder):
    (folder / "gone.md").symlink_to("nowhere.md")
    [found] = discover([Path()])
    assert found.error is not None
    assert found.error.code == "file_not_found"


def test_a_link_to_a_folder_around_it_is_an_error_and_ends_the_walk(folder):
    write(folder, "p/q/a.md")
    (folder / "p/q/up").symlink_to(folder / "p", target_is_directory=True)
    found = list(discover([Path("p")]))
    assert [each.shown for each in found if each.error is None] == ["p/q/a.md"]
    [error] = [each.error for each in found if each.error is not None]
    assert error.code == "invalid_input"
    assert "p/q/up" in error.message


def test_an_unreadable_folder_is_an_error_and_its_siblings_are_found(folder, monkeypatch):
    write(folder, "p/closed/a.md", "p/open/b.md")
    scandir = os.scandir

    def refuse(path):
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = list(discover([Path("p")]))
    assert [(each.shown, each.error is None) for each in found] == [
        ("p/closed", False),
        ("p/open/b.md", True),
    ]
    assert found[0].error is not None
    assert found[0].error.message == "p/closed: cannot be read: Permission denied"


def test_a_pipe_is_no_prompt(folder):
    os.mkfifo(folder / "pipe.md")
    error = only("pipe.md").error
    assert error is not None
    assert error.code == "invalid_input"


def test_a_file_that_goes_away_after_it_was_found_is_missing(folder):
    write(folder, "a.md")
    found = only("a.md")
    (folder / "a.md").unlink()
    with pytest.raises(UnfitPrompt) as caught:
        read_prompt(found)
    assert caught.value.code == "file_not_found"


@pytest.mark.parametrize(
    ("text", "kind"),
    [(PROMPT, "markdown"), ("messages: [{role: user, content: Hi}]\n", "prompt_yaml")],
)
def test_standard_input_is_markdown_unless_it_is_a_prompt_file(tmp_path, monkeypatch, text, kind):
    (tmp_path / "input").write_text(text)
    found = only("-")
    assert found.shown == "-"
    with (tmp_path / "input").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert read_prompt(found).type == kind


@given(st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_how_the_folder_is_listed(
    tmp_path_factory: pytest.TempPathFactory, order: random.Random
):
    root = tmp_path_factory.mktemp("any")
    names = ["b.md", "a/z.md", "a/b/c.md", "a.md", "B.md"]
    order.shuffle(names)
    write(root, *names)
    paths = [root, root / "a", root / "a.md"]
    order.shuffle(paths)
    found = [each.path.relative_to(root).as_posix() for each in discover(paths)]
    assert found == ["B.md", "a.md", "a/b/c.md", "a/z.md", "b.md"]


@pytest.mark.parametrize("size", [1, 2**16 - 1, 2**16, 2**16 + 1, 300_000])
def test_a_file_of_any_usual_size_is_read_whole(folder, size):
    content = bytes(65 + at % 26 for at in range(size))
    (folder / "a.md").write_bytes(content)
    assert read_bytes(only("a.md")) == content


def test_of_a_file_that_is_too_long_one_byte_more_than_allowed_is_read(folder):
    (folder / "a.md").write_bytes(b"x" * (MAX_BYTES + 100))
    assert len(read_bytes(only("a.md"))) == MAX_BYTES + 1
