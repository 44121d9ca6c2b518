"""Templates: what they give, and that none of them reaches out or grows without bound."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import takes_at_most
from evalwright.engine.suites.templates import MOST_NAMES, MOST_OUTPUT, BadTemplate, Templates


def rendered(value, **values):
    render = Templates().compile(value)
    return value if render is None else render(values)


class TestWhatTheyGive:
    def test_a_lone_expression_keeps_the_type_of_its_value(self):
        assert rendered("{{ price }}", price=1.5) == 1.5
        assert rendered("{{ item.tags }}", item={"tags": ["a"]}) == ["a"]
        assert rendered("{{ price | float }}", price="1.5") == 1.5

    def test_within_a_text_a_value_stands_as_json(self):
        values = {"yes": True, "none": None, "items": [1, "a"]}

        assert rendered("{{ yes }} {{ none }} {{ items }}", **values) == 'true null [1,"a"]'

    def test_values_within_objects_and_lists_are_rendered(self):
        assert rendered({"a": ["{{ x }}", 1]}, x=2) == {"a": [2, 1]}

    def test_a_value_is_never_taken_for_a_template(self):
        assert rendered("say {{ x }}", x="{{ y }}") == "say {{ y }}"
        assert rendered("{{ x }}", x="{{ y }}") == "{{ y }}"

    def test_conditions_loops_and_filters(self):
        text = "{% for n in names %}{% if n != 'b' %}{{ n | upper }};{% endif %}{% endfor %}"

        assert rendered(text, names=["a", "b", "c"]) == "A;C;"
        assert rendered("{{ names | join(', ') }}", names=["a", 1]) == "a, 1"
        assert rendered("{{ nick | default('none') }}!", nick="") == "!"

    def test_raw_text_may_have_braces(self):
        assert rendered("{% raw %}{{ x | anything }}{% endraw %}") == "{{ x | anything }}"

    def test_nothing_is_escaped(self):
        assert rendered("<{{ x }}>", x="a & b") == "<a & b>"

    @given(st.text())
    def test_any_text_without_marks_stays_as_it_is(self, text):
        assert "{{" in text or "{%" in text or rendered(text) == text

    @given(st.text(alphabet="{}%#'\"|()x- \n"))
    def test_any_text_is_rendered_or_refused(self, text):
        with contextlib.suppress(BadTemplate):
            rendered(text, x="value")


class TestUndefinedNames:
    @pytest.mark.parametrize(
        "text", ["{{ nope }}", "a {{ nope }}", "{{ x.nope }}", "{{ nope | upper }}"]
    )
    def test_they_are_errors(self, text):
        with pytest.raises(BadTemplate, match=r"nope is undefined|undefined value"):
            rendered(text, x={"a": 1})

    def test_the_place_and_a_near_name_are_told(self):
        with pytest.raises(BadTemplate) as caught:
            rendered({"a": ["{{ questoin }}"]}, question="?")

        assert caught.value.path == "$.a[0]"
        assert caught.value.remedy == "did you mean question?"


class TestBounds:
    @pytest.mark.parametrize("sign", ["~", "+", ","])
    def test_an_expression_has_only_so_many_names(self, sign):
        assert rendered("{{ [" + sign.join("s" * MOST_NAMES) + "] }}", s="a")
        with pytest.raises(BadTemplate, match="more than 20 names"):
            rendered("{{ [" + sign.join("s" * (MOST_NAMES + 1)) + "] }}", s="a")

    def test_words_in_strings_are_no_names(self):
        listed = ", ".join(f"'{n} a b'" for n in range(40))

        assert rendered("{{ x in [" + listed + "] }}", x="7 a b") is True

    @pytest.mark.parametrize(
        "text",
        [
            "{{ x.clear() }}",
            "{{ x['clear']() }}",
            "{{ (x.clear)() }}",
            "{{ debug() }}",
            "{{ 'a' * 10000000000 }}",
            "{{ '%1000000000d' | format(1) }}",
            "{{ ['a'] | map('upper') }}",
            "{{ '}}' | evil }}",
            "{% set a = 'x' %}{{ a }}",
            "{% macro m() %}{{ m() }}{% endmacro %}",
            "{% include '/etc/passwd' %}",
            "{% import 'x' as y %}",
            "{% filter upper %}a{% endfilter %}",
            "{% for a in x recursive %}{{ a }}{% endfor %}",
            "{{ " + "not " * 500 + "x }}",
            "{% for a in x %}" + "a" * 10_001 + "{% endfor %}",
            "{{ x",
            "{% if x",
            "{{ x }} {{ '",
        ],
    )
    def test_what_reaches_out_or_grows_is_refused_before_it_is_rendered(self, text):
        with pytest.raises(BadTemplate):
            Templates().compile(text)

    @pytest.mark.parametrize("mark", ["{{", "{%"])
    def test_a_long_text_in_which_nothing_is_closed_is_not_read_to_its_end(self, mark):
        """To do so took 130 bytes of memory for each of its characters."""

        def refuse():
            with pytest.raises(BadTemplate, match="is not closed, or only after 1000 characters"):
                Templates().compile(mark * 1_000_000)

        assert takes_at_most(0.05, refuse)

    def test_values_are_never_changed(self):
        values = {"a": 1}
        with pytest.raises(BadTemplate):
            rendered("{{ x.clear() }}", x=values)
        assert values == {"a": 1}

    @pytest.mark.parametrize(
        "text",
        [
            "{% for n in range(100000) %}{{ n }}{% endfor %}",
            "{% for a in many %}{{ long }}{% endfor %}",
            "{{ long | replace('a', long) }}",
            "{{ many | join(long) }}",
            "{{ long ~ long }}",
            "{{ long }}{{ long }}",
        ],
    )
    def test_a_text_ends_at_its_bound(self, text):
        long = "a" * (MOST_OUTPUT * 2 // 3)

        with pytest.raises(BadTemplate):
            rendered(text, long=long, many=[0] * 5000)
