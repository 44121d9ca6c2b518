"""The order of versions."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.host.library.versions import version_key

# As the specification of semantic versions orders them, and what is none of them before.
IN_ORDER = [
    "",
    "1.0",
    "nightly",
    "0.9.10",
    "1.0.0-1",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0",
]


@pytest.mark.parametrize(("lower", "higher"), list(itertools.pairwise(IN_ORDER)))
def test_versions_are_ordered_by_precedence(lower, higher):
    assert version_key(lower) < version_key(higher)


@given(st.text(), st.text())
def test_any_two_versions_have_an_order(one, other):
    assert (version_key(one) < version_key(other)) is not (version_key(one) >= version_key(other))
    assert (version_key(one) == version_key(other)) is (one == other)
