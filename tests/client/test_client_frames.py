"""Server-sent events are read the same in whatever pieces they come."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.client import sse
from evalwright.client.sse import Frame, FrameParser, FrameTooLong

words = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=20)
names = words.filter(lambda word: word != "")
line_ends = st.sampled_from([b"\n", b"\r", b"\r\n"])


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    data = b"\n".join(draw(st.lists(words.map(str.encode), min_size=1, max_size=3)))
    return Frame(draw(names), data, draw(st.none() | words))


def written(frame: Frame, end: bytes) -> bytes:
    lines = [b"event: " + frame.name.encode()]
    if frame.id is not None:
        lines.append(b"id: " + frame.id.encode())
    lines += [b"data: " + line for line in frame.data.split(b"\n")]
    return end.join([b": a comment", *lines, b"", b""])


def parsed(pieces: list[bytes]) -> list[Frame]:
    parser = FrameParser()
    return [frame for piece in pieces for frame in parser.feed(piece)]


@given(st.lists(st.tuples(frames(), line_ends), max_size=5), st.data())
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(sent, data):
    text = b"".join(written(frame, end) for frame, end in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    edges = [0, *cuts, len(text)]
    pieces = [text[a:b] for a, b in pairwise(edges)]
    assert parsed(pieces) == [frame for frame, _ in sent]


@given(st.lists(st.binary(max_size=30), max_size=10))
def test_any_bytes_are_read_as_if_they_had_come_one_by_one(pieces):
    text = b"".join(pieces)
    assert parsed(pieces) == parsed([text[n : n + 1] for n in range(len(text))])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"data: 1\n\n", [Frame("message", b"1")]),
        (b"\xef\xbb\xbfdata: 1\n\n", [Frame("message", b"1")]),
        (b"data:1\ndata\ndata: 2\n\n", [Frame("message", b"1\n\n2")]),
        (b"event: named\nid: 7\ndata: x\n\n", [Frame("named", b"x", "7")]),
        (b"id: 1\x002\ndata: x\n\n", [Frame("message", b"x")]),
        (b"event: without-data\n\n", []),
        (b":keepalive\n\n", []),
        (b"retry: 10\nunknown: field\ndata: x\n\n", [Frame("message", b"x")]),
        (b"data: never finished", []),
        (b"data: never finished\n", []),
    ],
)
def test_the_rules_of_the_format(text, expected):
    assert parsed([text]) == expected


def test_a_frame_that_does_not_end_is_given_up(monkeypatch):
    monkeypatch.setattr(sse, "MAX_FRAME_BYTES", 100)
    parser = FrameParser()
    parser.feed(b"data: " + b"x" * 90)
    with pytest.raises(FrameTooLong):
        parser.feed(b"x" * 10)


def test_many_frames_are_not_too_long_together(monkeypatch):
    monkeypatch.setattr(sse, "MAX_FRAME_BYTES", 100)
    parser = FrameParser()
    assert sum(len(parser.feed(b"data: 12345678\n\n")) for _ in range(100)) == 100
