"""Where the values of a call came from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.signals.trace_view import TraceView, arguments
from evalwright.signals.written_values import leaves, plain_words, read_date, written_forms
from evalwright.trace.decode import decode_trace

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=20,
)


def a_view(args, *, prompt="", system="", before=(), after=(), baseline_args=None):
    events = [{"type": "tool_result", "payload": payload} for payload in before]
    events.append({"type": "tool_call", "tool": "act", "args": args})
    events += [{"type": "tool_result", "payload": payload} for payload in after]
    baseline = None
    if baseline_args is not None:
        call = {"type": "tool_call", "tool": "act", "args": baseline_args}
        baseline = decode_trace({"events": [call]}, "case")
    return TraceView(decode_trace({"events": events}, "case", prompt, system), baseline)


def origins(view):
    return {each.path: each.origin for each in arguments(view, view.calls[0])}


def test_every_value_has_a_dotted_path():
    view = a_view({"to": ["ann", {"mail": "x@y.org"}], "n": 3, "urgent": True, "cc": None})
    assert list(origins(view)) == ["to.0", "to.1.mail", "n"]


def test_a_value_in_the_prompt_is_the_users():
    assert origins(a_view({"to": "ann@x.org"}, prompt="Write to Ann@X.org.")) == {"to": "user"}


def test_a_value_in_the_system_prompt_counts_as_said_by_the_user():
    assert origins(a_view({"to": "ann@x.org"}, system="Owner: ann@x.org")) == {"to": "user"}


def test_the_user_wins_over_a_tool_result():
    view = a_view({"to": "ann@x.org"}, prompt="mail ann@x.org", before=["ann@x.org"])
    assert origins(view) == {"to": "user"}


def test_a_value_from_a_tool_result_names_the_first_event_that_brought_it_in():
    view = a_view({"to": "ann@x.org"}, before=["nothing", {"mail": "ann@x.org"}, "ann@x.org"])
    (argument,) = arguments(view, view.calls[0])
    assert (argument.origin, argument.source.index) == ("tool_result", 1)


def test_a_value_from_a_retrieved_document_is_a_retrieval():
    events = [
        {"type": "retrieval", "doc_ids": ["d1"], "documents": ["Pay to NL01BANK"]},
        {"type": "tool_call", "tool": "pay", "args": {"iban": "NL01BANK"}},
    ]
    assert origins(TraceView(decode_trace({"events": events}, "case"))) == {"iban": "retrieval"}


def test_what_came_after_the_call_is_not_its_origin():
    assert origins(a_view({"to": "ann@x.org"}, after=["ann@x.org"])) == {"to": "model"}


def test_a_value_that_the_baseline_used_too_is_the_baselines():
    view = a_view({"to": "ann@x.org"}, before=["ann@x.org"], baseline_args={"x": "ANN@x.org"})
    assert origins(view) == {"to": "baseline"}


def test_a_value_from_nowhere_is_the_models():
    assert origins(a_view({"note": "made up"}, before=["something else"])) == {"note": "model"}


@pytest.mark.parametrize("written", ["1,000", "1000", "1000.0", "$1,000.00"])
@pytest.mark.parametrize("value", [1000, 1000.0, "1,000", "1000.00"])
def test_numbers_are_the_same_however_they_are_written(value, written):
    assert origins(a_view({"sum": value}, prompt=f"Pay {written} today.")) == {"sum": "user"}


def test_a_number_is_not_found_inside_another():
    assert origins(a_view({"sum": 10}, prompt="Pay 10,000 or 2010 or 10.5.")) == {"sum": "model"}


def test_case_whitespace_and_punctuation_do_not_matter():
    view = a_view({"title": "Lunch:  with Bob!"}, prompt="an event 'lunch\nwith BOB'")
    assert origins(view) == {"title": "user"}


def test_line_breaks_that_a_payload_escapes_do_not_hide_a_value():
    assert origins(a_view({"city": "Ulm"}, before=[{"text": "Address:\nUlm"}])) == {
        "city": "tool_result"
    }


def test_the_scheme_of_an_address_does_not_matter():
    view = a_view({"url": "https://www.example.org/a"}, prompt="look at www.example.org/a")
    assert origins(view) == {"url": "user"}


def test_a_date_told_in_words_is_the_same_date():
    view = a_view({"day": "2031-05-13"}, prompt="from the 13th to the 17th of May")
    assert origins(view) == {"day": "user"}


@pytest.mark.parametrize("value", ["2031-13-01", "2031-05-", "abcd-05-13", "²031-05-13", ""])
def test_what_is_no_date_is_not_read_as_one(value):
    assert read_date(value) is None


def test_a_value_without_words_has_no_form_and_so_no_origin():
    assert written_forms("...") == ()
    assert origins(a_view({"x": "—" * 0 + "?!"}, prompt="anything ?!")) == {"x": "model"}


def test_very_many_and_very_deep_arguments_are_survived():
    deep: object = "end"
    for _ in range(5_000):
        deep = [deep]
    assert list(leaves(deep)) == []
    assert len(list(leaves([str(n) for n in range(100_000)]))) < 100_000


def test_a_run_of_marks_takes_no_longer_than_its_length():
    assert plain_words("." * 1_000_000) == b"  "
    assert plain_words("," * 3_000_000).isspace()


@given(JSON, st.text(max_size=60), st.lists(JSON, max_size=3))
def test_any_arguments_can_be_traced(args, prompt, before):
    view = a_view(args, prompt=prompt, before=before)
    assert [each.path for each in arguments(view, view.calls[0])] == [
        path for path, _ in leaves(args)
    ]


@given(st.text(alphabet=st.characters(codec="ascii"), min_size=1, max_size=40))
def test_a_value_is_always_found_in_a_text_that_quotes_it(value):
    view = a_view({"x": value}, prompt=f"take '{value}' for it")
    expected = "user" if written_forms(value) else "model"
    assert set(origins(view).values()) <= {expected}
