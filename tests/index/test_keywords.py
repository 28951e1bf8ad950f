from __future__ import annotations

import sqlite3
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.index.keyword_search import EXACT, RANKED, _in_text
from core.index.keywords import MOST, any_of, search_words
from core.index.schema import FULL_TEXT


def table() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute(FULL_TEXT[0].replace("content='passages', content_rowid='number', ", ""))
    connection.execute("INSERT INTO passages_fts (title, heading, text) VALUES ('T', 'H', 'the kube-proxy of node 7')")
    return connection


def test_function_words_are_left_out_unless_there_is_nothing_else() -> None:
    assert search_words("How do I install the widget?") == ["install", "widget"]
    assert search_words("what is it") == ["what", "is", "it"]


def test_compound_names_are_looked_for_as_a_whole_and_in_parts() -> None:
    assert search_words("kube-proxy HV-12 --force") == ["kube", "proxy", "kube-proxy", "hv", "12", "hv-12", "force"]


def test_a_pasted_log_is_cut_to_its_first_words() -> None:
    words = search_words(" ".join(f"word{number}" for number in range(10_000)))
    assert words == [f"word{number}" for number in range(MOST)]


def test_a_quote_inside_a_word_stays_inside() -> None:
    assert any_of(['a" OR "b']) == '("a"" OR ""b")'


@pytest.mark.parametrize(
    "text",
    [
        '"',
        '""" OR *',
        "AND OR NOT NEAR(a b)",
        "text : *",
        "-a",
        "a*",
        "^a",
        "{title}: a",
        "(((",
        "'; DROP TABLE x; --",
        "🙂",
        "\0",
    ],
)
def test_operators_of_the_full_text_language_are_only_words(text: str) -> None:
    words = search_words(text)
    if words:
        table().execute("SELECT rowid FROM passages_fts WHERE passages_fts MATCH ?", (_in_text(words),)).fetchall()


@settings(max_examples=150, deadline=None)
@given(st.text())
def test_no_text_makes_a_syntax_error(text: str) -> None:
    words = search_words(text)
    assert len(words) <= MOST
    if words:
        match = _in_text(words).encode("utf-8", "replace").decode()
        table().execute("SELECT rowid FROM passages_fts WHERE passages_fts MATCH ?", (match,)).fetchall()


def test_a_long_text_of_separators_takes_no_time() -> None:
    started = time.process_time()
    search_words("a-" * 500_000)
    search_words("'" * 500_000)
    assert time.process_time() - started < 0.5


def test_a_large_index_ranks_less_than_it_would_when_small() -> None:
    assert RANKED < EXACT
