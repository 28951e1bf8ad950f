"""A workspace that removes the app, or whose token is good no more: the others go on."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.slack.conftest import Quill
from tests.slack.workspaces.conftest import (
    ANSWER,
    OTHER_TEAM,
    OTHER_TOKEN,
    QUESTION,
    Browser,
    dropped,
)
from tests.slack_server import ASKER, BOT_USER, TEAM, SlackServer
from tests.slack_server.server import APP_TOKEN, BOT_TOKEN, CLIENT_ID
from tests.slack_server.state import Workspace


def bots(slack: SlackServer) -> set[str]:
    """The tokens of bots that were used; on a busy machine a connection may be replaced, which takes the app's."""
    return {call.token for call in slack.calls if call.token != APP_TOKEN}


@pytest.mark.parametrize(
    "event", [{"type": "app_uninstalled"}, {"type": "tokens_revoked", "tokens": {"bot": [BOT_USER]}}]
)
async def test_a_workspace_that_removes_the_app_is_left_alone_and_the_other_goes_on(
    slack: SlackServer, quill: Quill, browser: Browser, other: Workspace, event: dict[str, Any]
):
    await browser.install(slack, BOT_TOKEN)
    await browser.install(slack, OTHER_TOKEN)
    slack.revoked.add(OTHER_TOKEN)
    slack.event(event, OTHER_TEAM)
    await quill.at_rest()
    assert [installed.place for installed in await quill.store.installations.all(CLIENT_ID)] == [TEAM]
    before = dropped()
    slack.calls.clear()
    quill.model.replies["generate"].append(ANSWER)
    slack.says_in(other, ASKER, "C1", QUESTION)
    asked = slack.says(ASKER, "C1", QUESTION)
    await quill.at_rest()
    assert dropped() == before + 2, "the mention came as two events"
    assert all(delivery.acked for delivery in slack.sockets.deliveries)
    assert bots(slack) == {BOT_TOKEN}
    assert len(slack.shown("C1", asked)) == 1
    assert len(quill.asked()) == 1


async def test_a_removal_that_is_told_late_ends_no_new_installation(
    slack: SlackServer, quill: Quill, browser: Browser, monkeypatch: pytest.MonkeyPatch
):
    await browser.install(slack, BOT_TOKEN)
    with monkeypatch.context() as patched:
        patched.setattr("tests.slack_server.server.time.time", lambda: time.time_ns() / 1e9 - 60)
        slack.event({"type": "app_uninstalled"})
    await quill.at_rest()
    assert [installed.place for installed in await quill.store.installations.all(CLIENT_ID)] == [TEAM]


async def test_tokens_of_people_that_are_revoked_end_nothing(slack: SlackServer, quill: Quill, browser: Browser):
    await browser.install(slack, BOT_TOKEN)
    slack.event({"type": "tokens_revoked", "tokens": {"oauth": ["U1"], "bot": []}})
    await quill.at_rest()
    assert len(await quill.store.installations.all(CLIENT_ID)) == 1


async def test_a_new_token_takes_the_place_of_the_old_at_once(
    slack: SlackServer, quill: Quill, browser: Browser, other: Workspace
):
    await browser.install(slack, OTHER_TOKEN)
    quill.model.replies["generate"] += [ANSWER] * 2
    slack.says_in(other, ASKER, "C1", QUESTION)
    await quill.at_rest()
    slack._installed["xoxb-new"] = slack._installed[OTHER_TOKEN]
    slack.revoked.add(OTHER_TOKEN)
    await browser.install(slack, "xoxb-new")
    slack.calls.clear()
    asked = slack.says_in(other, ASKER, "C1", QUESTION)
    await quill.at_rest()
    assert len(slack.shown("C1", asked, other)) == 1
    assert bots(slack) == {"xoxb-new"}


async def test_a_token_that_slack_refuses_ends_its_workspace_alone(
    slack: SlackServer, quill: Quill, browser: Browser, other: Workspace
):
    await browser.install(slack, BOT_TOKEN)
    await browser.install(slack, OTHER_TOKEN)
    slack.revoked.add(OTHER_TOKEN)
    quill.model.replies["generate"] += [ANSWER] * 2
    slack.says_in(other, ASKER, "C1", QUESTION)
    await quill.at_rest()
    asked = slack.says(ASKER, "C1", QUESTION)
    await quill.at_rest()
    assert not quill.running.done()
    assert len(slack.shown("C1", asked)) == 1
