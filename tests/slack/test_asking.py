"""Asking on Slack: in channels, threads and direct messages."""

from __future__ import annotations

import asyncio

import pytest

from adapters.addressing import FollowUps
from adapters.slack.names import MOST_AT_ONCE, Names
from adapters.slack.web import SlackWeb
from tests.fakes import ScriptedModel
from tests.slack.conftest import AT, Quill
from tests.slack_server import ASKER, BOT, BOT_USER, OTHER_BOT, SECOND, Fault, SlackServer
from tests.slack_server.server import BOT_TOKEN

STAFF = "U0STAFF"
OIL = "It takes **0.8 L** of oil [1]."
FILTER = "Change it every 90 days [1]."


def says(model: ScriptedModel, *answers: str, rewrites: tuple[str, ...] = ()) -> None:
    model.replies["generate"].extend(answers)
    model.replies["rewrite"].extend(rewrites)


async def test_a_mention_is_answered_in_its_thread_and_a_follow_up_needs_none(
    slack: SlackServer, quill: Quill, model: ScriptedModel
):
    says(model, OIL, FILTER, rewrites=("How often is the filter of the Kestrel pump changed?",))
    asked = await quill.hears(f"{AT} How much oil does the Kestrel pump take?")
    await quill.hears("and the filter?", thread=asked)
    first, second = slack.shown("C1", asked)
    assert first.startswith("It takes *0.8 L* of oil [1].")
    assert second.startswith("Change it every 90 days [1].")
    assert "[1] Page d1 (d1.md)" in first
    assert quill.retriever.queries[0] == "How much oil does the Kestrel pump take?"
    assert "How often is the filter of the Kestrel pump changed?" in quill.retriever.queries
    posts = slack.calls_of("chat.postMessage")
    assert [post.args["thread_ts"] for post in posts] == [asked, asked]


async def test_a_direct_message_needs_no_mention(slack: SlackServer, quill: Quill, model: ScriptedModel):
    says(model, OIL)
    asked = await quill.hears("How much oil does the Kestrel pump take?", "D1")
    assert slack.shown("D1", asked)[0].startswith("It takes *0.8 L* of oil [1].")


async def test_a_mention_in_a_thread_of_others_is_answered_there(
    slack: SlackServer, quill: Quill, model: ScriptedModel
):
    says(model, OIL)
    root = await quill.hears("Our pump hums.", user=SECOND)
    await quill.hears(f"{AT} How much oil does the Kestrel pump take?", thread=root)
    assert len(slack.shown("C1", root)) == 1


@pytest.mark.parametrize("channel", ["C1", "G1"])
async def test_what_is_not_for_the_bot_is_left_alone(
    slack: SlackServer, quill: Quill, model: ScriptedModel, channel: str
):
    root = await quill.hears("How much oil does the Kestrel pump take?", channel)
    await quill.hears("anybody?", channel, thread=root)
    assert not slack.calls_of("chat.postMessage")
    assert not model.requests


async def test_a_message_that_names_only_somebody_else_is_for_them(
    slack: SlackServer, quill: Quill, model: ScriptedModel
):
    says(model, OIL, FILTER, rewrites=("filter of the Kestrel pump",))
    asked = await quill.hears(f"{AT} How much oil does the Kestrel pump take?")
    await quill.hears(f"<@{SECOND}> can you check?", thread=asked)
    assert len(slack.shown("C1", asked)) == 1
    await quill.hears(f"{AT} <@{SECOND}> and the filter?", thread=asked)
    assert len(slack.shown("C1", asked)) == 2


async def test_bots_and_the_own_messages_are_not_answered(slack: SlackServer, quill: Quill, model: ScriptedModel):
    for fields in ({"bot_id": OTHER_BOT}, {"bot_id": BOT}, {"subtype": "bot_message", "bot_id": OTHER_BOT}):
        for _ in range(10):
            slack.says(ASKER, "D1", f"{AT} how much oil?", **fields)
    slack.says(BOT_USER, "D1", "how much oil?")
    slack.says("USLACKBOT", "D1", "how much oil?")
    await quill.at_rest()
    assert not model.requests
    assert all(delivery.acked for delivery in slack.sockets.deliveries)


async def test_names_of_people_and_channels_are_readable(slack: SlackServer, quill: Quill, model: ScriptedModel):
    says(model, OIL)
    typed = "is a &lt; b on <https://x.example/p?a=1&amp;b=2|the page>, see <#C2|> <#G1|> and ask <@U0SECOND> :wave:"
    asked = await quill.hears(f"{AT} {typed}")
    (turn,) = await quill.store.turns(quill.key(asked))
    assert turn.typed == "is a < b on the page (https://x.example/p?a=1&b=2), see #ops #G1 and ask @Second :wave:"
    assert turn.author == "Asker"


async def test_an_event_waits_for_no_name(slack: SlackServer, quill: Quill, model: ScriptedModel):
    says(model, OIL)
    slack.script("users.info", Fault(end="hang"), Fault(end="hang"))
    asked = await quill.hears(f"{AT} How much oil does <@{SECOND}>'s Kestrel pump take?")
    (turn,) = await quill.store.turns(quill.key(asked))
    assert (turn.author, turn.typed) == (ASKER, f"How much oil does @{SECOND}'s Kestrel pump take?")
    assert all(delivery.seconds < 3 for delivery in slack.sockets.deliveries)


async def test_of_a_crowd_only_some_are_asked_for_their_names(slack: SlackServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("adapters.slack.names.SECONDS", 10.0)
    web = SlackWeb(BOT_TOKEN, slack.api_url)
    names = Names(web)
    slack.workspace.names |= {f"U{number}": f"Person {number}" for number in range(100)}
    found = await asyncio.gather(*(names.user(f"U{number}") for number in range(100)))
    assert len(slack.calls_of("users.info")) == MOST_AT_ONCE
    assert found[:2] == ["Person 0", "Person 1"]
    assert found[-1] == "U99"
    assert await names.user("U99") == "Person 99"


async def test_a_thread_that_the_bot_was_called_into_is_not_its_own(
    slack: SlackServer, quill: Quill, model: ScriptedModel
):
    says(model, OIL)
    root = await quill.hears("Our pump hums.", user=SECOND)
    await quill.hears(f"{AT} How much oil does the Kestrel pump take?", thread=root)
    await quill.hears("Mine hums as well.", thread=root)
    assert len(slack.shown("C1", root)) == 1


@pytest.mark.parametrize(("follow_ups", "answered"), [("always", [1, 2]), ("asker", [0, 1]), ("mention", [0, 0])])
async def test_the_operator_decides_who_may_ask_on(
    slack: SlackServer, quill: Quill, model: ScriptedModel, follow_ups: str, answered: list[int]
):
    await quill.restart(follow_ups=FollowUps(follow_ups))
    says(model, OIL, FILTER, FILTER, rewrites=("filter of the Kestrel pump",) * 2)
    asked = await quill.hears(f"{AT} How much oil does the Kestrel pump take?")
    await quill.hears("and its filter?", thread=asked, user=SECOND)
    by_second = len(slack.shown("C1", asked)) - 1
    await quill.hears("and the filter?", thread=asked, user=ASKER)
    assert [by_second, len(slack.shown("C1", asked)) - 1] == answered


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("user", "said"), [(ASKER, "Solved, thanks!"), (STAFF, "Let me look into it.")])
async def test_when_people_have_taken_over_the_bot_is_silent_until_it_is_mentioned(
    slack: SlackServer, quill: Quill, model: ScriptedModel, user: str, said: str, restarted: bool
):
    await quill.restart(staff=frozenset({STAFF}))
    says(model, OIL, FILTER, FILTER, rewrites=("filter of the Kestrel pump",) * 2)
    asked = await quill.hears(f"{AT} How much oil does the Kestrel pump take?")
    await quill.hears(said, thread=asked, user=user)
    if restarted:
        await quill.restart()
    await quill.hears("and the filter?", thread=asked)
    assert len(slack.shown("C1", asked)) == 1
    await quill.hears(f"{AT} and the filter?", thread=asked)
    assert len(slack.shown("C1", asked)) == 2


async def test_only_the_channels_of_the_list_are_answered_in(slack: SlackServer, quill: Quill, model: ScriptedModel):
    await quill.restart(channels=frozenset({"C2"}), direct_messages=False)
    says(model, OIL)
    for channel in ("C1", "D1", "C2"):
        asked = await quill.hears(f"{AT} How much oil does the Kestrel pump take?", channel)
        assert len(slack.shown(channel, asked)) == (channel == "C2")


async def test_a_mention_without_a_word_asks_about_what_stands_above(
    slack: SlackServer, quill: Quill, model: ScriptedModel
):
    says(model, OIL)
    root = await quill.hears("Our Kestrel pump hums.", user=SECOND)
    await quill.hears("How much oil does the Kestrel pump take?", thread=root, user=SECOND)
    await quill.hears(AT, thread=root)
    (shown,) = slack.shown("C1", root)
    assert shown.startswith("It takes *0.8 L* of oil [1].")
    (turn,) = await quill.store.turns(quill.key(root))
    assert (turn.typed, turn.author) == ("How much oil does the Kestrel pump take?", "Asker")
    assert "Our Kestrel pump hums." in quill.asked()[0]
    # Nothing new stands there now.
    await quill.hears(AT, thread=root)
    assert slack.shown("C1", root)[1].startswith("Ask me something")


NOTHING = {"nothing": "", "blanks": " \u00a0 ", "invisible": "\u200b\u2060\u00ad", "a filler": "\u3164"}


@pytest.mark.parametrize("typed", NOTHING.values(), ids=NOTHING)
async def test_a_mention_that_says_nothing_is_told_how_to_ask_and_can_be_asked_on_from(
    slack: SlackServer, quill: Quill, model: ScriptedModel, typed: str
):
    asked = await quill.hears(f"{AT}{typed}")
    (shown,) = slack.shown("C1", asked)
    assert shown == "Ask me something about the documents."
    assert not model.requests
    says(model, OIL)
    await quill.hears("How much oil does the Kestrel pump take?", thread=asked)
    assert slack.shown("C1", asked)[1].startswith("It takes *0.8 L* of oil [1].")
    assert not model.asked("rewrite"), "there is nothing to ask on from"


@pytest.mark.parametrize("typed", NOTHING.values(), ids=NOTHING)
async def test_a_mention_that_says_nothing_asks_what_a_person_said_last(
    slack: SlackServer, quill: Quill, model: ScriptedModel, typed: str
):
    says(model, OIL)
    root = await quill.hears("Our pump hums.", user=SECOND)
    await quill.hears("How much oil does the Kestrel pump take?", thread=root, user=SECOND)
    await quill.hears("Ticket 7 was opened.", thread=root, user="U0OTHER", bot_id=OTHER_BOT)
    await quill.hears("\u200b", thread=root, user=SECOND)
    await quill.hears(f"{AT}{typed}", thread=root)
    (turn,) = await quill.store.turns(quill.key(root))
    assert turn.typed == "How much oil does the Kestrel pump take?"
    assert "Ticket 7 was opened." in quill.asked()[0]
    assert quill.asked()[0].count("How much oil does the Kestrel pump take?") == 1


async def test_a_mention_that_says_nothing_below_a_bots_line_is_told_how_to_ask(slack: SlackServer, quill: Quill):
    root = str(slack.workspace.add("C1", user="U0OTHER", bot_id=OTHER_BOT, text="Ticket 7 was opened.")["ts"])
    await quill.hears(AT, thread=root)
    assert slack.shown("C1", root) == ["Ask me something about the documents."]
