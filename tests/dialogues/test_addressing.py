"""When a message is a question to the bot."""

from __future__ import annotations

import itertools

import pytest

from adapters.addressing import Addressee, FollowUps, is_question, labelled_solved, says_solved, title_of

ANYTHING = dict.fromkeys(("to_us", "to_others", "ours", "by_asker", "quiet"), False)


def message(**true: bool) -> Addressee:
    return Addressee(**ANYTHING | true)


def test_what_is_put_to_the_bot_is_a_question_whatever_else_holds():
    for values in itertools.product((True, False), repeat=4):
        others = dict(zip(("to_others", "ours", "by_asker", "quiet"), values, strict=True))
        assert all(is_question(message(to_us=True, **others), policy) for policy in FollowUps)


def test_elsewhere_only_follow_ups_in_its_own_conversations_are_that_nobody_else_is_meant_by():
    assert is_question(message(ours=True), FollowUps.ALWAYS)
    for but in ({"ours": False}, {"quiet": True}, {"to_others": True}):
        assert not is_question(message(**{"ours": True, "by_asker": True} | but), FollowUps.ALWAYS)
    assert [is_question(message(ours=True), policy) for policy in FollowUps] == [True, False, False]
    assert [is_question(message(ours=True, by_asker=True), policy) for policy in FollowUps] == [True, True, False]


@pytest.mark.parametrize(
    "text", ["solved", "Solved, thanks!", "It's fixed now", "resolved.", "that works now", "never mind"]
)
def test_solved_is_said_in_many_ways(text: str):
    assert says_solved(text)


@pytest.mark.parametrize(
    "text", ["solved?", "how is this fixed", "It is not fixed", "fixed the pump, but the valve drips now", "", "thanks"]
)
def test_what_only_holds_such_a_word_is_not_it(text: str):
    assert not says_solved(text)


def test_a_title_or_a_tag_can_say_it():
    assert labelled_solved("[SOLVED] pump hums")
    assert labelled_solved("pump hums", "Resolved")
    assert not labelled_solved("unsolved mysteries", "open")


def test_a_title_is_one_line_and_ends_with_a_word():
    assert title_of("How do I\ninstall it?", 80) == "How do I install it?"
    long = title_of("word " * 40, 30)
    assert len(long) <= 30
    assert long.endswith("word…")
