"""The decoder of events by itself: any cut of the same bytes gives the same events."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ModelGarbage
from core.sse import MAX_LINE, SseDecoder


def decoded(chunks: list[bytes]) -> list[str]:
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.flush()


WORDS = st.lists(st.sampled_from([b"data: ", b"data:", b"a", "ü🌍".encode(), b": x", b"\r", b"\n", b"\r\n", b"\n\n"]))


@given(st.one_of(WORDS.map(b"".join), st.binary(max_size=60)), st.lists(st.integers(0, 60)))
def test_how_the_bytes_are_cut_makes_no_difference(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[start:end] for start, end in pairwise(edges)]
    assert decoded(chunks) == decoded([stream])
    assert decoded([bytes([byte]) for byte in stream]) == decoded([stream])


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1)))
def test_what_is_sent_is_what_is_read(texts: list[str]) -> None:
    stream = "".join(f"data: {text}\n\n" for text in texts)
    assert decoded([stream.encode()]) == texts


@pytest.mark.parametrize("start", [b"data: ", b": ", b""])
def test_a_line_of_any_kind_is_bounded(start: bytes) -> None:
    decoder = SseDecoder()
    decoder.feed(start)
    for _ in range(MAX_LINE // 1000 - 1):
        decoder.feed(b"x" * 1000)
    with pytest.raises(ModelGarbage):
        decoder.feed(b"x" * 2000)


def test_an_event_of_many_empty_lines_is_bounded() -> None:
    with pytest.raises(ModelGarbage):
        SseDecoder().feed(b"data:\n" * (MAX_LINE // 5 + 1))


def test_a_megabyte_one_byte_at_a_time_takes_linear_time() -> None:
    decoder = SseDecoder()
    decoder.feed(b"data: ")
    for _ in range(300_000):
        decoder.feed(b"x")
    (event,) = decoder.feed(b"\n\n")
    assert re.fullmatch("x{300000}", event)
