"""File names from case ids."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.comparison.cases import file_stem

ids = (
    st.text(max_size=400)
    | st.text("aA.~-_/\\%#? \0é", max_size=12)
    | st.from_regex("[Tt]ool_[0-9]{3}")
)


@pytest.mark.parametrize("case_id", ["tool_001", "a-b.c", "0"])
def test_plain_ids_stay_as_they_are(case_id):
    assert file_stem(case_id) == case_id


@given(ids)
def test_names_are_safe_everywhere(case_id):
    stem = file_stem(case_id)
    assert re.fullmatch(r"[a-z0-9_~.\-]*", stem)
    assert len(stem) <= 160
    assert not stem.startswith(".")
    assert ".." not in stem.split("/")


@given(ids, ids)
def test_two_ids_never_share_a_name_even_where_case_is_ignored(one, other):
    assert (file_stem(one).lower() == file_stem(other).lower()) == (one == other)


@given(ids, st.integers(2, 99))
def test_a_repetition_has_a_name_of_its_own(case_id, repetition):
    assert file_stem(case_id, repetition) != file_stem(case_id)


@pytest.mark.parametrize(
    "case_id", ["run", "con", "NUL", "aux.txt", "com1", "../../etc/passwd", "", "."]
)
def test_names_with_a_meaning_elsewhere_are_not_used(case_id):
    assert file_stem(case_id) not in {"run", "con", "nul", "aux.txt", "com1", "."}


def test_case_only_differences_and_long_ids_are_told_apart():
    assert file_stem("Case") != file_stem("case")
    assert file_stem("x" * 300) != file_stem("x" * 301)
    assert file_stem("x" * 300).startswith("x" * 80 + "~~")
