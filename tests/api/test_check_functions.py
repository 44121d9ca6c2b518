"""Every check of a suite file is a function of `ew`, with the same options under the same names."""

import functools
import inspect
import subprocess
import sys

import pytest

import evalwright as ew
from evalwright.api.check_objects import SPELLED, OwnFunctions
from evalwright.scoring.checks.table import CHECKS, prepare_checks

KEYWORDS = {"as": "as_"}


@pytest.fixture
def db(tmp_path):
    return tmp_path / "log.db"


def function_of(name):
    return getattr(ew, SPELLED.get(name, name))


def options_of(schema):
    """The fields of a check's argument, in all its forms."""
    forms = [schema, *schema.get("anyOf", ())]
    return {KEYWORDS.get(field, field) for form in forms for field in form.get("properties", {})}


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_of_the_table_is_a_function_with_its_options(name):
    function = function_of(name)
    is_made_of_its_fields = "<locals>" in function.__qualname__
    assert is_made_of_its_fields or SPELLED.get(name, name) in ew.__all__
    parameters = inspect.signature(function).parameters
    plural = {"value": "values", "criterion": "criteria", "tool": "tools"}
    for option in options_of(CHECKS[name].schema):
        assert option in parameters or plural.get(option) in parameters, f"{name}: {option}"
    assert "weight" in parameters
    assert function.__doc__


def polite(output):
    return "sorry" not in output


EXAMPLES = [
    (ew.equals("Paris"), {"equals": "Paris"}),
    (ew.equals({"value": 1}), {"equals": {"value": {"value": 1}}}),
    (ew.equals("a", ignore_case=True), {"equals": {"value": "a", "ignore_case": True}}),
    (ew.contains("shipped"), {"contains": "shipped"}),
    (ew.contains("order", weight=2), {"contains": "order", "weight": 2}),
    (ew.contains_any("a", "b"), {"contains_any": ["a", "b"]}),
    (ew.contains_all(["a", "b"]), {"contains_all": ["a", "b"]}),
    (ew.starts_with("Dear"), {"starts_with": "Dear"}),
    (ew.ends_with("."), {"ends_with": "."}),
    (ew.regex(r"A-\d+", full=True), {"regex": {"pattern": r"A-\d+", "full": True}}),
    (ew.not_(ew.contains("sorry")), {"not": {"contains": "sorry"}}),
    (ew.number(0.3, within=1e-9), {"number": {"value": 0.3, "within": 1e-9}}),
    (ew.number(0), {"number": 0}),
    (ew.number(between=[0, 1]), {"number": {"between": [0, 1]}}),
    (ew.json("$.id", equals="A-17"), {"json": {"path": "$.id", "equals": "A-17"}}),
    (ew.json("$.id", equals=None), {"json": {"path": "$.id", "equals": None}}),
    (
        ew.json("$.n", ew.number(between=[0, 1])),
        {"json": {"path": "$.n", "number": {"between": [0, 1]}}},
    ),
    (ew.json(), {"json": {"valid": True}}),
    (ew.json(valid=False), {"json": {"valid": False}}),
    (
        ew.calls("a:b", args={"id": ew.regex("A")}, times=1),
        {"calls": {"tool": "a:b", "args": {"id": {"regex": "A"}}, "times": 1}},
    ),
    (ew.calls("a:b", times=0), {"calls": {"tool": "a:b", "times": 0}}),
    (
        ew.calls_in_order("a", ew.calls("b", args={"x": 1})),
        {"calls_in_order": ["a", {"tool": "b", "args": {"x": 1}}]},
    ),
    (
        ew.calls_in_order(["a", "b"], exact=True),
        {"calls_in_order": {"tools": ["a", "b"], "exact": True}},
    ),
    (ew.does_not_call("a"), {"does_not_call": "a"}),
    (ew.retrieved(["a"], mrr=0.5), {"retrieved": {"ids": ["a"], "mrr": 0.5}}),
    (ew.cites(["a"]), {"cites": ["a"]}),
    (ew.state(unchanged=True), {"state": {"unchanged": True}}),
    (
        ew.state("$.a", ew.contains("x"), subset={"b": 1}, changed=True),
        {"state": {"path": "$.a", "contains": "x", "subset": {"b": 1}, "changed": True}},
    ),
    (ew.does_not_call("a", args={"x": 1}), {"does_not_call": {"tool": "a", "args": {"x": 1}}}),
    (ew.at_most(cost_usd=0.02, tokens=0), {"max": {"cost_usd": 0.02, "tokens": 0}}),
    (ew.max_turns(3), {"max": {"turns": 3}}),
    (
        ew.similar("It went out.", at_least=0.8),
        {"similar": {"to": "It went out.", "at_least": 0.8}},
    ),
    (ew.judge("greets"), {"judge": "greets"}),
    (
        ew.judge("greets", {"criterion": "helps", "weight": 2}),
        {"judge": ["greets", {"criterion": "helps", "weight": 2}]},
    ),
    (
        ew.judge_against("It went out.", as_="closed_qa"),
        {"judge_against": {"reference": "It went out.", "as": "closed_qa"}},
    ),
    (ew.no_signals("high"), {"no_signals": "high"}),
    (ew.no_signals(), {"no_signals": "low"}),
    (
        ew.python("checks.py:polite", at_least=0.5),
        {"python": {"function": "checks.py:polite", "at_least": 0.5}},
    ),
    (ew.any_of(ew.equals("yes"), ew.equals("y")), {"any": [{"equals": "yes"}, {"equals": "y"}]}),
    (
        ew.all_of([ew.contains("a"), {"contains": "b"}]),
        {"all": [{"contains": "a"}, {"contains": "b"}]},
    ),
    (ew.at_least(1, [ew.contains("a")]), {"at_least": {"n": 1, "of": [{"contains": "a"}]}}),
    (ew.contains("{{ expected }}"), {"contains": "{{ expected }}"}),
]


@pytest.mark.parametrize(("check", "document"), EXAMPLES, ids=lambda each: "")
def test_a_function_makes_the_check_that_a_file_would_have(check, document):
    assert check.document == document
    if "{{" not in str(document):
        assert prepare_checks([document], "$")[1] == []


@pytest.mark.parametrize(("check", "document"), EXAMPLES, ids=lambda each: "")
def test_a_check_may_also_be_written_as_in_a_file(check, document):
    assert ew.not_(document) == ew.not_(check)


def test_every_check_has_an_example_here():
    assert {next(iter(document)) for _, document in EXAMPLES} == set(CHECKS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ew.regex("("), r"ew\.regex: .*missing"),
        (lambda: ew.contains(""), r"ew\.contains: an empty text is in every output"),
        (lambda: ew.number(between=[1]), r"ew\.number, between: "),
        (ew.number, r"give a value, or between=\[low, high\]"),
        (lambda: ew.any_of([]), r"ew\.any_of: \[\] has less than 1 item$"),
        (ew.at_most, r"ew\.at_most: "),
        (lambda: ew.no_signals("high", weight=-1), r"ew\.no_signals, weight: a weight is"),
        (lambda: ew.equals(object()), r"ew\.equals: not a value that JSON can carry"),
        (lambda: ew.not_("sorry"), r"'sorry' is not a check; write ew\.contains\('sorry'\)"),
        (lambda: ew.not_(ew.contains), r"ew\.contains makes a check when it is called"),
        (lambda: ew.any_of(3), "3 is not a check: it is a check of ew, a function"),
        (lambda: ew.all_of({"contians": "a"}), "no check is called 'contians' .*contains"),
        (lambda: ew.calls_in_order(ew.contains("a")), r"is no call; write ew\.calls"),
        (lambda: ew.json("$.a", polite), "python looks at the whole answer"),
        (lambda: ew.python(lambda answer: True), "wants 'answer', which it cannot be given"),
    ],
)
def test_a_check_that_cannot_be_is_refused_where_it_is_written(make, message):
    with pytest.raises(ew.EvalwrightError, match=message):
        make()


def test_a_decorated_function_is_still_a_function():
    @ew.check
    def brief(output):
        return len(output) < 10

    @ew.check(name="closeness", at_least=0.5, weight=2)
    def close(output):
        return 0.6

    assert brief("short") is True
    assert ew.not_(brief).document["not"]["python"].endswith("brief")
    document = ew.all_of(close).document["all"][0]
    assert document["python"]["function"].endswith(":closeness")
    assert document["python"]["at_least"] == 0.5
    assert document["weight"] == 2


@pytest.mark.parametrize(
    ("decorate", "message"),
    [
        (lambda: ew.check(lambda answer: True), "wants 'answer', .*it may name input, output"),
        (lambda: ew.check(name="a b")(polite), "'a b' is no name"),
        (lambda: ew.check(at_least=2)(polite), r"ew\.python.* at_least"),
    ],
)
def test_a_function_that_cannot_be_a_check_is_refused_by_the_decorator(decorate, message):
    with pytest.raises(ew.EvalwrightError, match=message):
        decorate()


def test_functions_are_called_by_their_file_and_none_by_the_name_of_another(monkeypatch):
    monkeypatch.chdir(inspect.getfile(polite).rpartition("/")[0])
    own = OwnFunctions()
    one, other = (lambda output: True), (lambda output: False)

    class Polite:
        def __call__(self, output):
            return True

        def brief(self, output):
            return True

    mine = Polite()
    given = [polite, polite, one, other, functools.partial(polite), mine, mine.brief, mine.brief]
    assert [own.refer(each).rpartition("/")[2] for each in given] == [
        "test_check_functions.py:polite",
        "test_check_functions.py:polite",
        f"test_check_functions.py:{inspect.currentframe().f_code.co_name}.function",
        f"test_check_functions.py:{inspect.currentframe().f_code.co_name}.function_2",
        "test_check_functions.py:polite_2",
        f"test_check_functions.py:{inspect.currentframe().f_code.co_name}.Polite",
        f"test_check_functions.py:{inspect.currentframe().f_code.co_name}.Polite.brief",
        f"test_check_functions.py:{inspect.currentframe().f_code.co_name}.Polite.brief",
    ]


def höflich(output):  # noqa: PLC2401
    return True


@pytest.mark.parametrize(
    "function",
    [
        höflich,
        *(lambda output: True for _ in "a"),
        *[lambda output: True for _ in "ab"],
        {each: lambda output: True for each in "a"}["a"],
    ],
)
def test_whatever_a_function_is_called_it_can_be_a_check(db, function):
    assert ew.run([ew.Task("one", input="", checks=[function])], lambda task: "b", db=db).passed


def test_functions_without_a_file_are_called_by_their_module():
    script = """
import evalwright as ew

class Polite:
    def __call__(self, output):
        return True

print(ew.not_(Polite()).document, ew.not_(lambda output: True).document)
"""
    done = subprocess.run(
        [sys.executable, "-"], input=script, capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "{'not': {'python': '__main__:Polite'}} {'not': {'python': '__main__:function'}}\n"
    )


def test_checks_are_equal_by_what_they_say():
    assert ew.contains("a") == ew.contains("a")
    assert ew.contains("a") != ew.contains("b")
    assert len({ew.contains("a"), ew.contains("a")}) == 1
    assert repr(ew.not_(ew.contains("a"))) == 'ew.not_({"contains":"a"})'
