"""Is a change more than chance? By how often each task passed on both sides."""

import random
from fractions import Fraction
from itertools import combinations, product
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.scoring import chance
from evalwright.scoring.chance import ChangeTally, ChangeVerdict, Passes, change_verdict
from evalwright.scoring.statistics import mcnemar


def named(*passes: tuple[int, int, int, int]) -> dict[str, Passes]:
    return {f"task-{number}": Passes(*each) for number, each in enumerate(passes)}


def verdict(*passes: tuple[int, int, int, int]) -> ChangeVerdict:
    return change_verdict(named(*passes))


@st.composite
def tables(draw: st.DrawFn, most_runs: int = 5) -> tuple[int, int, int, int]:
    runs = draw(st.integers(1, most_runs)), draw(st.integers(1, most_runs))
    return draw(st.integers(0, runs[0])), runs[0], draw(st.integers(0, runs[1])), runs[1]


def by_brute_force(passes: list[tuple[int, int, int, int]]) -> tuple[float, float]:
    """Deal the passes of each task to its runs in all ways; both tails of the new side's passes."""
    observed = sum(new for _, _, new, _ in passes)
    dealt = [
        [
            sum(run >= before for run in chosen)
            for chosen in combinations(range(before + now), total)
        ]
        for total, before, now in ((old + new, before, now) for old, before, new, now in passes)
    ]
    sums = [sum(each) for each in product(*dealt)]
    lower = Fraction(sum(each <= observed for each in sums), len(sums))
    upper = Fraction(sum(each >= observed for each in sums), len(sums))
    return float(lower), float(upper)


@given(st.lists(tables(3), min_size=1, max_size=3))
def test_the_p_value_is_that_of_dealing_the_passes_in_all_ways(passes) -> None:
    lower, upper = by_brute_force(passes)
    assert verdict(*passes).p_value == pytest.approx(min(1, 2 * min(lower, upper)))


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 5))
def test_with_one_run_on_each_side_it_is_mcnemars_test(fell, rose, same) -> None:
    found = verdict(*[(1, 1, 0, 1)] * fell, *[(0, 1, 1, 1)] * rose, *[(1, 1, 1, 1)] * same)
    assert found.p_value == mcnemar(fell, rose)


@given(st.lists(tables(), max_size=12), st.randoms())
def test_neither_order_nor_names_nor_sides_make_a_difference(passes, chance_of_order) -> None:
    found = verdict(*passes)
    assert 0 < found.p_value <= 1
    shuffled = verdict(*chance_of_order.sample(passes, len(passes)))
    assert (shuffled.p_value, shuffled.is_worse) == (found.p_value, found.is_worse)
    renamed = change_verdict({f"{each}!": one for each, one in named(*passes).items()})
    assert renamed.p_value == found.p_value
    assert [f"{each.task_id}!" for each in found.fallen] == [
        each.task_id for each in renamed.fallen
    ]
    turned = verdict(*((new, new_runs, old, runs) for old, runs, new, new_runs in passes))
    assert turned.p_value == pytest.approx(found.p_value)
    assert not (turned.is_lower and found.is_lower)


@given(st.lists(tables(), max_size=12), st.lists(tables(), max_size=12))
def test_parts_that_are_merged_say_the_same_as_the_whole(first, second) -> None:
    whole = named(*first, *second)
    one, two = ChangeTally(), ChangeTally()
    one.add(list(whole.items())[: len(first)])
    two.add(list(whole.items())[len(first) :])
    two.merge(one)
    assert two.verdict() == change_verdict(whole)


def test_a_task_that_broke_in_all_repeats_is_named_though_39_others_are_as_before() -> None:
    found = verdict(*[(5, 5, 5, 5)] * 39, (5, 5, 0, 5))
    assert found.is_worse
    assert found.sentence == (
        "Worse beyond chance: 200 of 200 → 195 of 200 passed (p = 0.0079). "
        "Task task-39: 5 of 5 → 0 of 5, p = 0.0079."
    )


def test_a_task_that_broke_is_named_even_if_the_rest_got_better() -> None:
    found = verdict(*[(0, 5, 3, 5)] * 12, (5, 5, 0, 5))
    assert found.is_worse
    assert not found.is_better
    assert found.sentence == (
        "Worse beyond chance in 1 of 13 tasks. "
        "Overall better beyond chance: 5 of 65 → 36 of 65 passed (p < 0.001). "
        "Task task-12: 5 of 5 → 0 of 5, p = 0.0079."
    )


def test_a_task_is_named_as_people_know_it_and_keeps_its_id() -> None:
    found = change_verdict({"row-1": Passes(5, 5, 0, 5)}, {"row-1": "how-long-a1b2"}.__getitem__)
    assert found.sentence.endswith("Task how-long-a1b2: 5 of 5 → 0 of 5, p = 0.0079.")
    assert (found.fallen[0].task_id, found.fallen[0].name) == ("row-1", "how-long-a1b2")


def test_among_many_flaky_tasks_one_that_fell_may_be_chance() -> None:
    flaky = [(3, 5, 2, 5), (2, 5, 3, 5)] * 10
    assert not verdict(*flaky, (5, 5, 0, 5)).fallen
    assert [each.task_id for each in verdict(*flaky, *[(5, 5, 0, 5)] * 8).fallen] == [
        f"task-{number}" for number in range(20, 28)
    ]


def test_of_many_tasks_that_broke_the_first_are_named_and_the_rest_counted() -> None:
    sentence = verdict(*[(5, 5, 0, 5)] * 7).sentence
    assert sentence.count("5 of 5 → 0 of 5") == 5
    assert sentence.endswith(" and 2 more.")


@pytest.mark.parametrize(
    ("passes", "sentence"),
    [
        ([(1, 1, 1, 1), (0, 1, 0, 1)], "No verdict changed: 1 of 2 passed on both sides."),
        ([(1, 1, 5, 5)], "No verdict changed: 1 of 1 → 5 of 5 passed."),
        ([], "Nothing was compared: no task has a result on both sides."),
        (
            [(1, 1, 0, 1)] * 6 + [(1, 1, 1, 1)] * 34,
            "Worse beyond chance: 40 of 40 → 34 of 40 passed (p = 0.031).",
        ),
        ([(0, 1, 1, 1)] * 6, "Better beyond chance: 0 of 6 → 6 of 6 passed (p = 0.031)."),
        (
            [(1, 1, 0, 1)] * 5 + [(1, 1, 1, 1)] * 35,
            (
                "Within chance: 40 of 40 → 35 of 40 passed (p = 0.062); "
                "1 more failing task would be beyond it."
            ),
        ),
        (
            [(1, 1, 0, 1)] * 3,
            (
                "Within chance: 3 of 3 → 0 of 3 passed (p = 0.25); "
                "so few tasks cannot tell without repeats: "
                "6 would have to fail (see evalwright power)."
            ),
        ),
        ([(0, 1, 1, 1)], "Within chance: 0 of 1 → 1 of 1 passed (p = 1)."),
        (
            [(1, 1, 0, 5), (1, 1, 5, 5)],
            (
                "Within chance: 2 of 2 → 5 of 10 passed (p = 0.33); "
                "4 repeats on each side would show whether a task broke."
            ),
        ),
        (
            [(5, 5, 4, 5), (5, 5, 5, 5)],
            "Within chance: 10 of 10 → 9 of 10 passed (p = 1).",
        ),
    ],
)
def test_the_sentence_says_which_way_how_many_and_how_sure(passes, sentence) -> None:
    assert verdict(*passes).sentence == sentence


def test_what_has_no_run_on_a_side_is_not_compared() -> None:
    assert verdict((0, 0, 1, 1), (1, 1, 1, 1)).tasks == 1


def test_where_counting_would_take_long_the_normal_limit_is_as_good(monkeypatch) -> None:
    draw = random.Random(3)
    passes = [(draw.randint(0, 5), 5, draw.randint(0, 4), 5) for _ in range(150)]
    exact = verdict(*passes).p_value
    monkeypatch.setattr(chance, "_EXACT_BITS", 0)
    assert verdict(*passes).p_value == pytest.approx(exact, rel=0.02)


def test_a_hundred_thousand_tasks_with_repeats_are_decided_and_the_p_value_is_never_0() -> None:
    found = verdict(*[(5, 5, 1, 5)] * 100_000)
    assert found.is_worse
    assert found.p_value > 0


def test_a_p_value_of_one_task_is_fishers() -> None:
    assert verdict((5, 5, 0, 5)).p_value == pytest.approx(2 / comb(10, 5))


def test_tasks_that_fell_are_named_up_to_five() -> None:
    def text(count: int) -> str:
        return verdict(*[(10, 10, 0, 10)] * count).sentence

    assert "Task task-0" in text(1)
    assert text(2).count("; ") == 1
    assert "Tasks task-0" in text(2)
    assert " and " not in text(5)
    assert text(7).endswith(" and 2 more.")
