"""cases.json, read piece by piece."""

import json
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalwright.comparison import case_file
from evalwright.comparison.case_file import CaseFile
from evalwright.contracts.errors import BadInput


def written(tmp_path, text):
    path = tmp_path / "cases.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def cases_of(path):
    with closing(CaseFile(path)) as cases:
        return [cases.case(number) for number in range(len(cases))]


@pytest.mark.parametrize(
    "text",
    [
        '[{"id": "a"}, {"id": "b"}]',
        '{"cases": [{"id": "a"}, {"id": "b"}]}',
        '{"version": 3, "about": {"cases": []}, "cases": [{"id": "a"}, {"id": "b"}], "x": 1}',
        '\ufeff[{"id": "a"},\n\n{"id": "b"}]\n',
    ],
)
def test_an_array_or_an_object_that_holds_one(tmp_path, text):
    assert list(CaseFile(written(tmp_path, text)).ids()) == ["a", "b"]


@pytest.mark.parametrize("block", range(1, 24))
def test_a_number_may_be_cut_anywhere_by_the_end_of_a_block(tmp_path, monkeypatch, block):
    monkeypatch.setattr(case_file, "_BLOCK", block)
    text = '{"at": 12.5e+3, "cases": [{"id": "a"}]}'
    assert list(CaseFile(written(tmp_path, text)).ids()) == ["a"]


def test_an_empty_array_holds_no_case(tmp_path):
    assert len(CaseFile(written(tmp_path, " [ ] "))) == 0


@pytest.mark.parametrize(
    "text",
    ["", "{}", '"x"', '[{"id": "a"}', '[{"id": "a"} {"id": "b"}]', '[{"id": "a', "[1,]", "nul"],
)
def test_what_is_no_file_of_cases_is_refused_with_its_place(tmp_path, text):
    with pytest.raises(BadInput, match=r"line \d+ column \d+"):
        CaseFile(written(tmp_path, text))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        CaseFile(tmp_path / "nowhere.json")


def test_entries_that_are_no_objects_have_no_id(tmp_path):
    path = written(tmp_path, '[null, 5, "x", {}, {"id": 7}, {"id": "a"}]')
    assert list(CaseFile(path).ids()) == [None, None, None, None, 7, "a"]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=60)
@given(
    entries=st.lists(values, max_size=8),
    indent=st.sampled_from([None, 2]),
    block=st.integers(1, 40),
)
def test_any_array_is_read_as_it_is_wherever_the_blocks_end(
    tmp_path_factory, entries, indent, block
):
    path = tmp_path_factory.mktemp("cases") / "cases.json"
    path.write_bytes(
        json.dumps(entries, indent=indent, ensure_ascii=False).encode("utf-8", "replace")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(case_file, "_BLOCK", block)
        assert cases_of(path) == json.loads(path.read_bytes())
