"""How a workspace installs the app: the link to Slack, the way back, and what is refused."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from aiohttp import ClientSession

from adapters.slack import installing
from adapters.slack.installing import INSTALL, REDIRECT
from core.errors import DataDirError
from tests.slack.conftest import Quill
from tests.slack.workspaces.conftest import (
    Browser,
)
from tests.slack_server import BOT_USER, TEAM, Fault, SlackServer
from tests.slack_server.server import BOT_TOKEN, CLIENT_ID, CLIENT_SECRET


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
