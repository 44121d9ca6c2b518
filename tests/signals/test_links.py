"""Addresses and links in texts: hosts, what they carry, and what may be shown of them."""

import pytest

from evalwright.signals.outbound import MOST_LINKS, Link, is_address, is_blob, is_email, links_in


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://www.Acme.test/a?b", "acme.test"),
        ("http://user:pw@acme.test:8080/x", "acme.test"),
        ("https://acme.test?x=1", "acme.test"),
        ("https://sub.acme.test", "sub.acme.test"),
    ],
)
def test_the_host_of_a_link(url, host):
    assert Link(url, image=False).host == host


def test_what_a_query_carries():
    assert Link("https://a.test/?k=v&flag&x=1=2#frag", image=False).carried == ["v", "flag", "1=2"]
    assert Link("https://a.test/path", image=False).carried == []
    many = "&".join(f"k{number}=v" for number in range(60))
    assert len(Link(f"https://a.test/?{many}", image=False).carried) == 50


def test_a_link_is_shown_without_its_query_and_its_credentials():
    assert Link("https://u:p@a.test/x?secret=1", image=False).shown == "a.test/x?…"
    assert Link("https://a.test/x", image=False).shown == "https://a.test/x"
    assert len(Link("https://a.test/" + "x" * 500, image=False).shown) == 200


def test_links_are_found_once_in_order_without_the_punctuation_after_them():
    text = "See https://b.test/x. Or ![i](https://a.test/i.png) and https://b.test/x!"
    assert list(links_in(text)) == [
        Link("https://b.test/x", image=False),
        Link("https://a.test/i.png", image=True),
    ]
    assert list(links_in("no link, acme.test")) == []


def test_of_very_many_links_the_first_count():
    text = " ".join(f"https://a{number}.test" for number in range(MOST_LINKS + 5))
    assert len(list(links_in(text))) == MOST_LINKS == 50


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a@b.co", True),
        ("a@b.c", False),
        ("http://x", True),
        ("DE89370400440532013000", True),
        ("+49 170 1234567", True),
        ("12345678", True),
        ("1234567", False),
        ("word12", False),
        ("x://y" + "z" * 295, True),
        ("x://y" + "z" * 296, False),
        ("a://b", False),  # five characters
        ("", False),
    ],
)
def test_what_is_an_address(value, expected):
    assert is_address(value) is expected


def test_an_email_is_an_email_alone():
    assert is_email("ann.lee+x@mail.acme.test")
    assert not is_email("write to ann@acme.test")
    assert not is_email("ann.acme.test")


def test_a_blob_has_at_least_24_characters_of_an_encoding():
    assert is_blob("A" * 24)
    assert not is_blob("A" * 23)
    assert not is_blob("A" * 12 + " " + "A" * 12)
