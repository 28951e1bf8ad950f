"""Several workspaces: each installs the app, asks, is answered with its own token, and never with another's."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from adapters.ports import ThreadKey
from adapters.slack import channel, installing
from adapters.slack.installing import INSTALL, REDIRECT
from adapters.slack.setup import SlackSetup
from adapters.slack_http import PATH
from adapters.store.installations import Installed
from core import metrics
from core.errors import DataDirError
from tests.slack.conftest import AT, Quill, TypingModel
from tests.slack.test_http import free_port
from tests.slack_server import ASKER, BOT, BOT_USER, TEAM, Fault, SlackServer
from tests.slack_server.requests import SIGNING_SECRET
from tests.slack_server.server import BOT_TOKEN, CLIENT_ID, CLIENT_SECRET
from tests.slack_server.state import Workspace

OTHER_TEAM, OTHER_TOKEN = "T2", "xoxb-other-token"
QUESTION = f"{AT} How much oil does the Kestrel pump take?"
ANSWER = "It takes 0.8 L of oil [1]."


class Browser:
    """Of somebody who installs the app."""

    def __init__(self, setup: SlackSetup) -> None:
        self.at = f"http://127.0.0.1:{setup.http_port}"
        self.cookie = ""

    async def get(self, path: str, **query: str) -> tuple[int, str]:
        headers = {"Cookie": self.cookie} if self.cookie else {}
        async with ClientSession() as session, session.get(self.at + path, params=query, headers=headers) as reply:
            for morsel in SimpleCookie(reply.headers.get("Set-Cookie", "")).values():
                self.cookie = f"{morsel.key}={morsel.value}"
            return reply.status, await reply.text()

    async def begin(self, **query: str) -> str:
        """Looks at the page; the state that its link has."""
        status, page = await self.get(INSTALL, **query)
        assert status == 200
        found = re.search(r"state=([\w-]+)&amp;", page)
        assert found is not None
        return found[1]

    async def install(self, slack: SlackServer, token: str) -> tuple[int, str]:
        """The whole way."""
        state = await self.begin()
        slack.codes["code"] = token
        return await self.get(REDIRECT, state=state, code="code")


@pytest.fixture(params=["http", "socket"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def quill(
    slack: SlackServer, model: TypingModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> AsyncIterator[Quill]:
    monkeypatch.setattr(channel, "SHORTEST_PACE", 0.02)
    # Bolt reads these by itself.
    monkeypatch.setenv("SLACK_CLIENT_ID", CLIENT_ID)
    monkeypatch.setenv("SLACK_CLIENT_SECRET", CLIENT_SECRET)
    quill = Quill(slack, tmp_path / "conversations.db", model)
    several = replace(quill.setup, bot_token="", client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    quill.setup = replace(several, http_port=free_port())
    if way == "http":
        quill.setup = replace(quill.setup, app_token="", signing_secret=SIGNING_SECRET)
        slack.requests.url = f"http://127.0.0.1:{quill.setup.http_port}{PATH}"
    await quill.start()
    await quill.connected()
    yield quill
    await quill.stop()


@pytest.fixture
def browser(quill: Quill) -> Browser:
    return Browser(quill.setup)


@pytest.fixture
def other(slack: SlackServer) -> Workspace:
    return slack.another(OTHER_TEAM, OTHER_TOKEN)


def in_workspace(workspace: Workspace, thread: str) -> ThreadKey:
    return ThreadKey(platform="slack", workspace=workspace.team, channel="C1", thread=thread)


def dropped() -> float:
    return float(metrics.SLACK_NOT_INSTALLED._value.get())


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
    assert {call.token for call in slack.calls} == {BOT_TOKEN}
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
    assert {call.token for call in slack.calls} == {"xoxb-new"}


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


async def marked(quill: Quill, team: str) -> None:
    async with asyncio.timeout(10):
        while True:
            if await quill.store.lookups.heard_until(f"slack:{team}") is not None:
                return
            await asyncio.sleep(0.01)


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


async def installed_everywhere(quill: Quill) -> None:
    """The app, in an organization."""
    everywhere = Installed(
        place="E1", enterprise="E1", org_wide=True, token=OTHER_TOKEN, bot=BOT, user=BOT_USER, at=datetime.now(UTC)
    )
    await quill.store.installations.save(CLIENT_ID, everywhere)


def asks_in_organization(slack: SlackServer, other: Workspace) -> str:
    """Somebody asks in a workspace of the organization; the `ts`."""
    message = other.add("C1", user=ASKER, text=QUESTION)
    asked = str(message["ts"])
    event = {**message, "type": "app_mention", "channel": "C1", "event_ts": asked}
    who = {"team_id": OTHER_TEAM, "enterprise_id": "E1", "user_id": BOT_USER, "is_bot": True}
    slack._send(
        {
            "type": "event_callback",
            "team_id": OTHER_TEAM,
            "enterprise_id": "E1",
            "event": event,
            "authorizations": [who | {"is_enterprise_install": True}],
        },
        "events_api",
    )
    return asked


async def test_an_organization_that_installs_the_app_has_it_in_each_workspace(
    slack: SlackServer, quill: Quill, other: Workspace
):
    await installed_everywhere(quill)
    quill.model.replies["generate"].append(ANSWER)
    asked = asks_in_organization(slack, other)
    await quill.at_rest()
    assert len(slack.shown("C1", asked, other)) == 1
    assert len(await quill.store.turns(in_workspace(other, asked))) == 1


async def test_what_an_organizations_workspace_missed_is_read_up_with_its_id(
    slack: SlackServer, quill: Quill, other: Workspace
):
    slack._installed[OTHER_TOKEN][1].org_wide = True
    await installed_everywhere(quill)
    quill.model.replies["generate"] += [ANSWER] * 3
    asks_in_organization(slack, other)
    await marked(quill, OTHER_TEAM)
    await quill.at_rest()
    await quill.stop()
    missed = str(other.add("C2", user=ASKER, text=QUESTION)["ts"])
    await quill.start()
    await quill.connected()
    asks_in_organization(slack, other)
    await slack.until(lambda: len(slack.shown("C2", missed, other)) == 1, 10)
    await quill.at_rest()


# ------------------------------------------------------------------------------------------------ installing


async def test_the_link_to_slack_asks_for_the_scopes_of_the_manifest_and_no_more(quill: Quill, browser: Browser):
    _, page = await browser.get(INSTALL, team="T9&scope=admin")
    link = re.search(r'href="(https://slack.com/oauth/v2/authorize[^"]*)"', page)
    assert link is not None
    assert f"client_id={CLIENT_ID}" in link[1]
    assert "app_mentions:read" in link[1]
    assert "admin" not in link[1]
    assert CLIENT_SECRET not in page
    assert "team=T9" in (await browser.get(INSTALL, team="T9"))[1]


async def test_a_state_is_good_once_for_its_browser_and_for_a_while(
    slack: SlackServer, quill: Quill, browser: Browser, monkeypatch: pytest.MonkeyPatch
):
    slack.codes.update({f"code{number}": BOT_TOKEN for number in range(9)})
    state = await browser.begin()
    cookie = browser.cookie
    stranger = Browser(quill.setup)
    assert (await stranger.get(REDIRECT, state=state, code="code1"))[0] == 400
    assert (await browser.get(REDIRECT, state="made-up", code="code2"))[0] == 400
    stranger.cookie = "slack-app-oauth-state=made-up"
    assert (await stranger.get(REDIRECT, state="made-up", code="code3"))[0] == 401
    assert not await quill.store.installations.all(CLIENT_ID)
    browser.cookie = cookie
    assert (await browser.get(REDIRECT, state=state, code="code4"))[0] == 200
    browser.cookie = cookie
    assert (await browser.get(REDIRECT, state=state, code="code5"))[0] == 401, "it was used"
    late = await browser.begin()
    now = time.monotonic()
    monkeypatch.setattr("adapters.slack.installing.time.monotonic", lambda: now + installing.STATE_SECONDS + 1)
    assert (await browser.get(REDIRECT, state=late, code="code6"))[0] == 401
    assert len(slack.calls_of("oauth.v2.access")) == 1


async def test_states_that_nobody_comes_back_with_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(installing, "MOST_STATES", 2)
    states = installing.States()
    first, second, third = [await states.async_issue() for _ in range(3)]
    assert [await states.async_consume(state) for state in (first, second, third)] == [False, True, True]


async def test_whoever_says_no_or_brings_a_wrong_code_installs_nothing(
    slack: SlackServer, quill: Quill, browser: Browser
):
    assert (await browser.get(REDIRECT, error="<b>access_denied"))[0] == 200
    assert "<b>" not in (await browser.get(REDIRECT, error="<b>access_denied"))[1]
    assert (await browser.get(REDIRECT, state=await browser.begin(), code="wrong"))[0] == 401
    assert (await browser.get(REDIRECT, state=await browser.begin()))[0] == 401
    slack.script("oauth.v2.access", Fault(end="reset"))
    assert await browser.get(REDIRECT, state=await browser.begin(), code="x") == (502, installing.NOT_NOW)
    assert not await quill.store.installations.all(CLIENT_ID)


async def test_a_token_that_cannot_be_stored_is_told_to_the_installer(
    slack: SlackServer, quill: Quill, browser: Browser, monkeypatch: pytest.MonkeyPatch
):
    async def full(*_: object) -> None:
        raise DataDirError("The disk is full.")

    monkeypatch.setattr(quill.store.installations, "save", full)
    status, page = await browser.install(slack, BOT_TOKEN)
    assert status == 500
    assert "storage_error" in page


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


@pytest.mark.parametrize("listed", ["T9", "E1", OTHER_TEAM])
async def test_an_organization_is_listed_by_its_own_id_or_by_those_of_its_workspaces(
    slack: SlackServer, quill: Quill, listed: str
):
    await installed_everywhere(quill)
    await quill.restart(teams=frozenset({listed}))
    found = await quill.socket._workspace.of(OTHER_TEAM, "E1")
    assert (found is not None) == (listed != "T9")


@pytest.mark.parametrize("path", [INSTALL, REDIRECT])
async def test_odd_requests_at_the_pages_are_refused_without_a_trace(
    quill: Quill, browser: Browser, caplog: pytest.LogCaptureFixture, path: str
):
    assert (await browser.get(path, **{f"name{n}": "" for n in range(2000)}))[0] == 400
    async with ClientSession() as session:
        headers = {"Content-Type": "text/plain; charset=foo"}
        async with session.request("GET", browser.at + path, data=b"\xff", headers=headers) as reply:
            assert reply.status < 500
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        ({"team": None}, "names no workspace"),
        ({"team": {"id": ""}}, "names no workspace"),
        ({"team": {"id": ["T1"]}}, "names no workspace"),
        ({"access_token": f"{BOT_TOKEN}\r\nX: y"}, ""),
        ({"expires_in": 43200, "refresh_token": "xoxe-1"}, "token rotation"),
    ],
)
async def test_an_odd_reply_to_an_installation_is_refused_and_nothing_is_stored(
    slack: SlackServer, quill: Quill, browser: Browser, odd: dict[str, Any], why: str, caplog: pytest.LogCaptureFixture
):
    reply = {"ok": True, "access_token": BOT_TOKEN, "bot_user_id": BOT_USER, "team": {"id": TEAM}} | odd
    slack.script("oauth.v2.access", Fault(body=json.dumps(reply)))
    status, page = await browser.install(slack, BOT_TOKEN)
    assert status == 502
    assert why in page
    assert not await quill.store.installations.all(CLIENT_ID)
    assert len([record for record in caplog.records if record.name.startswith("adapters")]) == 1
    assert "Traceback" not in caplog.text
    assert "xox" not in caplog.text


async def test_no_token_or_code_is_in_the_log(
    slack: SlackServer, quill: Quill, browser: Browser, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    await browser.install(slack, BOT_TOKEN)
    await browser.get(REDIRECT, state=await browser.begin(), code="secret-code")
    await browser.get(REDIRECT, error="access_denied", code="secret-code")
    assert BOT_TOKEN not in caplog.text
    assert "secret-code" not in caplog.text
    assert CLIENT_SECRET not in caplog.text
