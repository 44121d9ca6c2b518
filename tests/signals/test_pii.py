"""Personal data is found by shapes that hold up to their checksums, and by the words before it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from invented_secrets import PERSONAL

from evalwright.signals.patterns import quick_pattern, spans_in
from evalwright.signals.pii import SHAPES
from evalwright.signals.sensitive import scan


def personal_in(text: str) -> list[tuple[str, str]]:
    return [(each.rule, text[each.start : each.end]) for each in scan(text) if each.family == "pii"]


@pytest.mark.parametrize("rule", PERSONAL)
def test_each_kind_is_found_whole(rule):
    context, value = PERSONAL[rule]
    assert personal_in(context.format(value)) == [(rule, value)]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("phone", "(212) 555-0147"),
        ("phone", "212-555-0147"),
        ("phone", "phone: 020 7946 0958"),
        ("credit-card", "5500-0000-0000-0004"),
        ("credit-card", "378282246310005"),
        ("iban", "GB82WEST12345698765432"),
        ("date-of-birth", '"dob": "1990-04-05"'),
        ("date-of-birth", "born on March 3rd, 1971"),
        ("passport", "'Passport Number': 'HGK137803'"),
        ("national-id", "SSN 536228145"),
        ("email", "<ann+tag@mail.acme.test>"),
    ],
)
def test_other_ways_to_write_it_are_known(rule, text):
    assert [found for found, _ in personal_in(text)] == [rule]


@pytest.mark.parametrize(
    "text",
    [
        "Order reference 4111111111111112",
        "Reference DE20923531862377927257",
        "SSN-like 000-12-3456, 666-12-3456, 912-12-3456, 123-00-4567 and 123-45-0000",
        "ts=1799203730054",
        "Part 735-028-844",
        "item_ids: [2716595828, 4332224677]",
        "ISBN 978-7-7823-3929-4",
        "listening on 127.0.0.1:8080 and 10.0.0.7 and 192.168.1.4",
        "upgraded from 4.18.6 to version 9.18.7.1",
        "Mozilla/5.0 Chrome/120.0.6099.71",
        "Git 1.8.1.3",
        "2.83-2.12 3.51.98.32",
        "25.686796, -56.298406",
        "install @types/node@20.95.1",
        "Follow @acme_support",
        "2024-07-11 to 2024-06-24",
        "ZIP+4 95263-0752",
        "the passport was renewed in 2019",
        "Total $803.24 for 4 items",
    ],
)
def test_numbers_and_names_of_other_kinds_are_left_alone(text):
    assert personal_in(text) == []


def test_an_account_number_ends_where_its_country_says():
    assert personal_in("to DE89 3704 0044 0532 0130 00 USD now") == [
        ("iban", "DE89 3704 0044 0532 0130 00")
    ]


def test_a_card_number_inside_a_longer_number_is_none():
    assert personal_in("4111111111111111-2222") == []
    assert personal_in("94111111111111111") == []


@given(
    st.lists(
        st.sampled_from(
            [*(value for _, value in PERSONAL.values()), *" -.@+1490aZ\n", "dob: ", "phone "]
        ),
        max_size=15,
    ).map("".join)
)
def test_shapes_mean_the_same_to_the_standard_library(text):
    raw = text.encode()
    spans = [found.span() for found in re.finditer(SHAPES, raw)]
    assert list(spans_in(quick_pattern(SHAPES), raw)) == spans
