"""Tables of words in plain text, beside the modules that read them."""

from pathlib import Path

import pytest

import evalwright
from evalwright.signals.word_tables import either, text_tables, word_tables

PACKAGE = Path(evalwright.__file__).parent
FILES = sorted(PACKAGE.rglob("*.txt"))
DOCUMENTS = [path for path in PACKAGE.rglob("*.yaml") if path.with_suffix(".py").is_file()]


def test_a_row_goes_on_in_lines_that_begin_with_a_space(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text(
        "# What it holds.\n\n[first]\nen: pay wire\n  transfer\n# French.\nfr: mot_de_passe\n\n"
        "[second]\nany:\n"
    )
    tables = word_tables(str(tmp_path / "words.py"))
    assert tables == {
        "first": {"en": ["pay", "wire", "transfer"], "fr": ["mot de passe"]},
        "second": {"any": []},
    }
    assert either(*tables["first"].values()) == "pay|wire|transfer|mot de passe"


def test_a_row_may_be_a_text(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("[advice]\ntone: Say `{{tone}}`\n  or my_tone.\n")
    assert text_tables(str(tmp_path / "words.py")) == {
        "advice": {"tone": "Say `{{tone}}` or my_tone."}
    }


@pytest.mark.parametrize("path", [*FILES, *sorted(DOCUMENTS)], ids=lambda path: path.stem)
def test_every_file_of_words_says_where_they_come_from_and_what_measures_them(path: Path) -> None:
    head, _, rest = path.read_text(encoding="utf-8").partition("\n\n")
    assert all(line.startswith("#") for line in head.split("\n"))
    assert "Source: " in head
    assert "Yardstick: " in head
    assert rest
    assert path.with_suffix(".py").is_file()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_table_of_words_is_empty(path: Path) -> None:
    assert all(table for table in word_tables(str(path)).values())
