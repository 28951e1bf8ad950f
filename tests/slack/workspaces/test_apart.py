"""Several workspaces: each asks, is answered with its own token, and never with another's."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.slack.conftest import AT, Quill
from tests.slack.workspaces.conftest import (
    ANSWER,
    OTHER_TEAM,
    OTHER_TOKEN,
    QUESTION,
    Browser,
    dropped,
    in_workspace,
    marked,
)
from tests.slack_server import ASKER, SECOND, TEAM, SlackServer
from tests.slack_server.server import BOT_TOKEN, CLIENT_ID
from tests.slack_server.state import Workspace


async def test_two_workspaces_ask_and_each_is_answered_with_its_own_token(
    slack: SlackServer, quill: Quill, browser: Browser, other: Workspace
):
    for token in (BOT_TOKEN, OTHER_TOKEN):
        status, page = await browser.install(slack, token)
        assert (status, "Thank you" in page) == (200, True), page
    slack.calls.clear()
    quill.model.replies["generate"] += [ANSWER] * 2
    asked = {
        BOT_TOKEN: (slack.workspace, slack.says(ASKER, "C1", QUESTION)),
        OTHER_TOKEN: (other, slack.says_in(other, ASKER, "C1", QUESTION)),
    }
    await quill.at_rest()
    for token, (workspace, thread) in asked.items():
        assert ["0.8 L" in text for text in slack.shown("C1", thread, workspace)] == [True]
        mine = [call for call in slack.calls if thread in (call.args.get("thread_ts"), call.args.get("ts"))]
        assert mine
        assert {call.token for call in mine} == {token}
        assert len(await quill.store.turns(in_workspace(workspace, thread))) == 1


async def test_streams_go_through_the_token_of_their_workspace(
    slack: SlackServer, quill: Quill, browser: Browser, other: Workspace
):
    quill.setup = replace(quill.setup, streams=True)
    await quill.restart()
    await browser.install(slack, OTHER_TOKEN)
    quill.model.replies["generate"].append(ANSWER)
    thread = slack.says_in(other, ASKER, "C1", QUESTION)
    await quill.at_rest()
    assert len(slack.shown("C1", thread, other)) == 1
    (started,) = slack.calls_of("chat.startStream")
    assert (started.token, started.args["recipient_team_id"]) == (OTHER_TOKEN, OTHER_TEAM)


async def test_the_same_channel_and_ts_in_two_workspaces_are_two_conversations(
    slack: SlackServer, quill: Quill, browser: Browser, other: Workspace, monkeypatch: pytest.MonkeyPatch
):
    await browser.install(slack, BOT_TOKEN)
    await browser.install(slack, OTHER_TOKEN)
    when = f"{time.time():.6f}"
    for workspace in (slack.workspace, other):
        monkeypatch.setattr(
            workspace, "new_ts", iter([when, *(f"{float(when) + n:.6f}" for n in range(1, 99))]).__next__
        )
    quill.model.replies["generate"] += [ANSWER] * 2
    asked = slack.says(ASKER, "C1", QUESTION)
    assert slack.says_in(other, ASKER, "C1", f"{AT} How often do I change the Heron valve?") == asked
    await quill.at_rest()
    typed = [[turn.typed for turn in await quill.store.turns(in_workspace(w, asked))] for w in (slack.workspace, other)]
    assert [len(turns) for turns in typed] == [1, 1]
    assert "Kestrel" in typed[0][0]
    assert "Heron" in typed[1][0]
    assert [len(slack.shown("C1", asked, workspace)) for workspace in (slack.workspace, other)] == [1, 1]


async def test_what_is_missed_in_each_workspace_is_read_up_with_its_own_token(
    slack: SlackServer, quill: Quill, browser: Browser, other: Workspace
):
    await browser.install(slack, BOT_TOKEN)
    await browser.install(slack, OTHER_TOKEN)
    for team in (TEAM, OTHER_TEAM):
        await marked(quill, team)
    await quill.stop()
    slack.sockets.retries = ()
    asked = slack.says(ASKER, "C1", QUESTION)
    elsewhere = slack.says_in(other, ASKER, "C1", QUESTION)
    await slack.until(lambda: all(delivery.done.is_set() for delivery in slack.sockets.deliveries), 10)
    slack.calls.clear()
    quill.model.replies["generate"] += [ANSWER] * 2
    await quill.start()
    await slack.until(lambda: len(slack.shown("C1", asked)) == 1 and len(slack.shown("C1", elsewhere, other)) == 1, 10)
    await quill.at_rest()
    assert {call.token for call in slack.calls_of("conversations.history")} == {BOT_TOKEN, OTHER_TOKEN}
    assert len(quill.asked()) == 2


async def test_a_question_is_answered_after_a_restart_though_nothing_came_from_its_workspace(
    slack: SlackServer, quill: Quill, browser: Browser, other: Workspace
):
    slack.sockets.retries = (0.05,) * 60
    await browser.install(slack, OTHER_TOKEN)
    quill.model.replies["generate"].append(5.0)
    asked = slack.says_in(other, ASKER, "C1", QUESTION)
    await slack.until(lambda: len(slack.shown("C1", asked, other)) == 1, 10)
    await quill.stop()
    quill.model.replies["generate"].clear()
    quill.model.replies["generate"].append(ANSWER)
    await quill.start()
    await slack.until(lambda: "0.8 L" in "".join(slack.shown("C1", asked, other)), 10)
    await quill.at_rest()
    assert len(slack.shown("C1", asked, other)) == 1


async def test_only_workspaces_that_are_listed_install_the_app(
    slack: SlackServer, quill: Quill, browser: Browser, other: Workspace
):
    await quill.restart(teams=frozenset({TEAM}))
    assert (await browser.install(slack, BOT_TOKEN))[0] == 200
    status, page = await browser.install(slack, OTHER_TOKEN)
    assert status == 403
    assert f"may not be installed in {OTHER_TEAM}" in page
    assert [found.place for found in await quill.store.installations.all(CLIENT_ID)] == [TEAM]


async def test_a_workspace_that_is_taken_off_the_list_is_answered_no_more(
    slack: SlackServer, quill: Quill, browser: Browser, other: Workspace
):
    await browser.install(slack, BOT_TOKEN)
    await browser.install(slack, OTHER_TOKEN)
    await quill.restart(teams=frozenset({TEAM}))
    slack.calls.clear()
    quill.model.replies["generate"] += [ANSWER] * 2
    before = dropped()
    asked = slack.says(ASKER, "C1", QUESTION)
    elsewhere = slack.says_in(other, ASKER, "C1", QUESTION)
    await quill.at_rest()
    assert (len(slack.shown("C1", asked)), len(slack.shown("C1", elsewhere, other))) == (1, 0)
    assert dropped() == before + 2, "the mention and the message"
    assert not [call for call in slack.calls if call.token == OTHER_TOKEN]


async def test_a_channel_that_is_listed_with_its_workspace_is_no_other_workspaces(
    slack: SlackServer, quill: Quill, browser: Browser, other: Workspace
):
    await browser.install(slack, BOT_TOKEN)
    await browser.install(slack, OTHER_TOKEN)
    await quill.restart(channels=frozenset({f"{TEAM}/C1", "C2"}))
    quill.model.replies["generate"] += [ANSWER] * 3
    answered = []
    for workspace in (slack.workspace, other):
        for place in ("C1", "C2"):
            asked = slack.says_in(workspace, ASKER, place, QUESTION)
            await quill.at_rest()
            answered.append(len(slack.shown(place, asked, workspace)))
    assert answered == [1, 1, 0, 1]


async def test_staff_of_one_workspace_are_none_of_anothers(
    slack: SlackServer, quill: Quill, browser: Browser, other: Workspace
):
    await browser.install(slack, BOT_TOKEN)
    await browser.install(slack, OTHER_TOKEN)
    await quill.restart(staff=frozenset({f"{TEAM}/{SECOND}"}))
    quill.model.replies["generate"] += [ANSWER] * 6
    quill.model.replies["rewrite"] += ["filter of the Kestrel pump"] * 6
    answered = []
    for workspace in (slack.workspace, other):
        asked = slack.says_in(workspace, ASKER, "C1", QUESTION)
        await quill.at_rest()
        slack.says_in(workspace, SECOND, "C1", "Let me look into it.", asked)
        await quill.at_rest()
        before = len(slack.shown("C1", asked, workspace))
        slack.says_in(workspace, ASKER, "C1", "and the filter?", asked)
        await quill.at_rest()
        answered.append(len(slack.shown("C1", asked, workspace)) - before)
    assert answered == [0, 1]
