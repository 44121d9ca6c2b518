"""The text in which Prometheus reads metrics."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.host.telemetry import prometheus
from evalwright.host.telemetry.prometheus import Counter, Gauge, Histogram

UNICODE = st.text(st.characters(exclude_categories=["Cs"]))
SAMPLE = re.compile(r'metric\{a="((?:[^"\\\n]|\\.)*)",b="((?:[^"\\\n]|\\.)*)"\} (\S+)')
ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def unescaped(text: str) -> str:
    return re.sub(r"\\.", lambda found: ESCAPES[found.group()], text)


def lines(family) -> list[str]:
    return list(family.lines())


@given(UNICODE, UNICODE)
def test_any_label_value_stays_on_its_line_and_is_read_back_as_it_was(a, b):
    counter = Counter("metric", "told", ["a", "b"])
    counter.add(a, b)
    _, _, sample = lines(counter)
    read = SAMPLE.fullmatch(sample)
    assert read is not None
    assert (unescaped(read[1]), unescaped(read[2]), read[3]) == (a, b, "1")


def test_a_metric_says_what_it_is_before_its_samples():
    counter = Counter("metric", "what\nit \\ tells")
    counter.add(by=2.5)
    assert lines(counter) == [
        "# HELP metric what\\nit \\\\ tells",
        "# TYPE metric counter",
        "metric 2.5",
    ]


def test_a_counter_begins_with_zero_where_its_values_are_known():
    assert lines(Counter("metric", "told"))[2:] == ["metric 0"]
    known = Counter("metric", "told", ["status"], ["good", "bad"])
    assert lines(known)[2:] == ['metric{status="good"} 0', 'metric{status="bad"} 0']


def test_a_counter_never_shrinks():
    with pytest.raises(AssertionError, match="only grows"):
        Counter("metric", "told").add(by=-1)


def test_a_gauge_tells_the_last_value_or_asks_for_it():
    gauge = Gauge("metric", "told")
    gauge.add(3)
    gauge.add(-1)
    assert lines(gauge)[2:] == ["metric 2"]
    gauge.read_from(lambda: 7)
    assert lines(gauge)[2:] == ["metric 7"]


@given(st.lists(st.floats(0, 100)))
def test_a_histogram_counts_every_observation_once_and_its_buckets_add_up(observed):
    histogram = Histogram("metric", "told", [1, 10], ["kind"])
    for value in observed:
        histogram.observe(value, "x")
    told = dict(line.rsplit(" ", 1) for line in lines(histogram)[2:])
    if not observed:
        assert told == {}
        return
    for bound in (1, 10):
        expected = sum(value <= bound for value in observed)
        assert told[f'metric_bucket{{kind="x",le="{bound}"}}'] == str(expected)
    assert told['metric_bucket{kind="x",le="+Inf"}'] == str(len(observed))
    assert told['metric_count{kind="x"}'] == str(len(observed))
    assert float(told['metric_sum{kind="x"}']) == pytest.approx(sum(observed))


def test_more_series_than_the_limit_are_counted_together(monkeypatch):
    monkeypatch.setattr(prometheus, "MAX_SERIES", 2)
    counter = Counter("metric", "told", ["route"])
    for route in ("a", "b", "c", "d", "a"):
        counter.add(route)
    assert lines(counter)[2:] == [
        'metric{route="a"} 2',
        'metric{route="b"} 1',
        'metric{route="other"} 2',
    ]
