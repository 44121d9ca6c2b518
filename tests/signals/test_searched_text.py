"""Looking for many values in a text gives the same as looking for each."""

import random

import pytest

from evalwright.signals import written_values
from evalwright.signals.written_values import LINKS, WORDS, SearchedText


@pytest.mark.parametrize("seed", range(20))
def test_values_are_found_where_find_finds_them(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_values, "_SHORT", 0)
    monkeypatch.setattr(written_values, "_SEARCHES", 0)
    monkeypatch.setattr(written_values, "_NEAR", 8)
    monkeypatch.setattr(written_values, "_MANY", 5)
    monkeypatch.setattr(written_values, "_COMPARED", 6)
    chance = random.Random(seed)
    words = [bytes(chance.choices(b"abc", k=chance.randint(1, 4))) for _ in range(8)]
    text = b" %b " % b" ".join(chance.choices(words, k=80))
    searched = SearchedText(text, WORDS)
    for _ in range(200):
        value = b" %b " % b" ".join(chance.choices([*words, b"other"], k=chance.randint(1, 4)))
        value = chance.choice([value, value.strip()])
        start, end = sorted(chance.choices(range(len(text) + 1), k=2))
        assert searched.find(value, start, end) == text.find(value, start, end)
        assert searched.find(value) == text.find(value)
        assert (value in searched) == (value in text)


def test_a_link_is_found_also_within_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_values, "_SHORT", 0)
    monkeypatch.setattr(written_values, "_SEARCHES", 0)
    monkeypatch.setattr(written_values, "_NEAR", 1)
    text = b"see xhttps://a.example/?to=https://b.example/1 and http://c.example"
    searched = SearchedText(text, LINKS)
    for url in (b"https://b.example", b"https://a.example/?to=", b"http://c.example", b"http://d"):
        assert searched.find(url) == text.find(url)
        assert searched.find(url) == text.find(url)  # sorted by now
