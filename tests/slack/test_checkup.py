"""What `threadwise doctor` finds on Slack, asked of the real Web API client."""

from __future__ import annotations

import socket
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from adapters.checkup import Finding
from adapters.slack.checkup import HTTP, INSTALLING, NO_CHANNEL, NOT_INSTALLED, NOT_TOLD, SOCKET, look, wanted_scopes
from adapters.slack.setup import SlackSetup
from adapters.store.installations import Installed
from tests.slack.test_http import free_port
from tests.slack_server import Fault, SlackServer
from tests.slack_server.requests import SIGNING_SECRET
from tests.slack_server.scopes import GRANTED
from tests.slack_server.server import APP_TOKEN, BOT_TOKEN, CLIENT_ID, CLIENT_SECRET


@pytest.fixture
def setup(slack: SlackServer) -> SlackSetup:
    return SlackSetup(bot_token=BOT_TOKEN, app_token=APP_TOKEN, api_base_url=slack.api_url)


def wrong(findings: list[Finding]) -> list[str]:
    return [finding.text for finding in findings if not finding.good]


async def test_a_sound_setup_is_told_as_sound_with_what_cannot_be_known(slack: SlackServer, setup: SlackSetup):
    found = await look(setup)
    assert wrong(found) == []
    assert found[0].text == f"Slack: the bot token is good in the workspace Works, T1 (by {slack.api_url})."
    assert [finding.text for finding in found[1:]] == [
        "Slack: the bot token has all scopes of the manifest.",
        "Slack: the bot is in 3 channels.",
        SOCKET,
        NOT_TOLD.format("manifest.yaml"),
    ]
    assert [call.method for call in slack.calls] == [
        "auth.test",
        "users.conversations",
        "apps.connections.open",
        "bots.info",
    ]
    assert not slack.sockets.hellos, "no connection is made"


def test_the_local_slack_grants_what_the_manifest_asks_for():
    assert wanted_scopes() == GRANTED


async def test_scopes_that_were_not_granted_are_named(slack: SlackServer, setup: SlackSetup):
    slack.scopes = GRANTED - {"im:history", "chat:write"}
    (line,) = wrong(await look(setup))
    assert "lacks chat:write, im:history: add them" in line


@pytest.mark.parametrize("error", ["invalid_auth", "account_inactive", "token_revoked"])
async def test_a_bot_token_that_slack_refuses_ends_the_look(slack: SlackServer, setup: SlackSetup, error: str):
    slack.script("auth.test", Fault(error=error))
    (finding,) = await look(setup)
    assert not finding.good
    assert error in finding.text
    assert "SLACK_BOT_TOKEN" in finding.text
    assert len(slack.calls) == 1


@pytest.mark.parametrize("error", ["invalid_auth", "not_allowed_token_type", "missing_scope"])
async def test_an_app_token_that_slack_refuses_is_named(slack: SlackServer, setup: SlackSetup, error: str):
    slack.script("apps.connections.open", Fault(error=error))
    (line,) = wrong(await look(setup))
    assert line.startswith(f"Slack refuses SLACK_APP_TOKEN ({error})")
    assert "connections:write" in line


async def test_socket_mode_that_is_off_is_no_fault_of_the_token(slack: SlackServer, setup: SlackSetup):
    slack.script("apps.connections.open", Fault(error="socket_mode_disabled"))
    (line,) = wrong(await look(setup))
    assert "socket_mode_disabled" in line
    assert "SLACK_APP_TOKEN" not in line


async def test_tokens_of_two_apps_are_told(slack: SlackServer, setup: SlackSetup, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.slack_server.server.APP_TOKEN", "xapp-1-A0OTHER-1-secret")
    (line,) = wrong(await look(replace(setup, app_token="xapp-1-A0OTHER-1-secret")))
    assert "of the app A0OTHER, SLACK_BOT_TOKEN of the app A0QUILL" in line
    assert "secret" not in line


async def test_a_bot_that_is_in_no_channel_is_to_be_invited(slack: SlackServer, setup: SlackSetup):
    for place in slack.workspace.places.values():
        place.member = place.kind == "im"
    assert wrong(await look(setup)) == [NO_CHANNEL]


async def test_a_listed_channel_that_the_bot_is_not_in_is_named(slack: SlackServer, setup: SlackSetup):
    slack.methods.page = 2
    (line,) = wrong(await look(replace(setup, channels=frozenset({"C1", "C9"}))))
    assert "not in C9 of SLACK_CHANNELS" in line
    assert len(slack.calls_of("users.conversations")) == 2, "both pages were read"


async def test_an_id_of_another_workspace_is_named(slack: SlackServer, setup: SlackSetup):
    mine = frozenset({"T1/C1", "C2"})
    assert wrong(await look(replace(setup, channels=mine, staff=frozenset({"T1/U1"})))) == []
    (line,) = wrong(await look(replace(setup, channels=mine | {"T9/C1"})))
    assert "T9/C1 in SLACK_CHANNELS or SLACK_STAFF is not in this workspace, T1" in line


@pytest.mark.parametrize("fault", [Fault(body="<html>sign in</html>"), Fault(status=403, body="<html>no</html>")])
async def test_a_page_in_the_place_of_slack_names_the_address(slack: SlackServer, setup: SlackSetup, fault: Fault):
    slack.script("auth.test", fault)
    (finding,) = await look(setup)
    assert finding.text.startswith(f"Slack, {slack.api_url}: what answers is not Slack's Web API")
    assert "SLACK_API_BASE_URL" in finding.text


async def test_a_slack_that_cannot_be_reached_is_told(slack: SlackServer, setup: SlackSetup):
    await slack.stop()
    (finding,) = await look(setup)
    assert not finding.good
    assert "cannot be reached" in finding.text
    assert "the network and the proxy" in finding.text


async def test_over_http_the_port_is_tried_and_the_other_manifest_named(slack: SlackServer, setup: SlackSetup):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        over_http = replace(setup, app_token="", signing_secret=SIGNING_SECRET, http_port=port)
        (line,) = wrong(await look(over_http))
        assert f"SLACK_HTTP_PORT {port} cannot be listened at (address already in use)" in line
        (line,) = wrong(await look(replace(over_http, http_host="a..b")))
        assert "SLACK_HTTP_HOST a..b" in line
    slack.calls.clear()
    found = await look(over_http)
    assert wrong(found) == []
    texts = [finding.text for finding in found]
    assert texts[-2:] == [HTTP.format("127.0.0.1", port), NOT_TOLD.format("manifest_http.yaml")]
    assert not slack.calls_of("apps.connections.open")
    assert SIGNING_SECRET not in "".join(texts)


WORKS = Installed(
    place="T1", name="Works One", token=BOT_TOKEN, bot="B0QUILL", user="U0QUILL", at=datetime(2026, 1, 1, tzinfo=UTC)
)


@pytest.fixture
def several(setup: SlackSetup) -> SlackSetup:
    one_way = replace(setup, bot_token="", app_token="", signing_secret=SIGNING_SECRET, http_port=free_port())
    return replace(one_way, client_id=CLIENT_ID, client_secret=CLIENT_SECRET)


async def test_each_workspace_that_has_installed_the_app_is_looked_at(slack: SlackServer, several: SlackSetup):
    slack.another("T2", "xoxb-other-token")
    slack.another("T3", "xoxb-gone-token")
    slack.revoked.add("xoxb-gone-token")
    others = [
        replace(WORKS, place="T2", name="Works Two", token="xoxb-other-token"),
        replace(WORKS, place="T3", name="Works Three", token="xoxb-gone-token"),
    ]
    found = await look(replace(several, channels=frozenset({"C1", "C9"})), [WORKS, *others])
    (line,) = wrong(found)
    assert "Works Three" in line
    assert "token_revoked" in line
    assert "SLACK_BOT_TOKEN" not in line
    for name in ("Works One", "Works Two"):
        assert f"Slack, {name}: the bot token has all scopes of the manifest." in [finding.text for finding in found]
    assert {call.token for call in slack.calls} == {BOT_TOKEN, "xoxb-other-token", "xoxb-gone-token"}
    assert not any("xoxb" in finding.text for finding in found)


async def test_a_listed_channel_of_one_of_several_workspaces_is_looked_for_there(
    slack: SlackServer, several: SlackSetup
):
    slack.another("T2", "xoxb-other-token")
    two = [WORKS, replace(WORKS, place="T2", name="Works Two", token="xoxb-other-token")]
    (line,) = wrong(await look(replace(several, channels=frozenset({"T1/C1", "T2/C9", "C8"})), two))
    assert line.startswith("Slack, Works Two: the bot is not in C9 of SLACK_CHANNELS")


async def test_an_app_that_no_workspace_has_installed_is_told(slack: SlackServer, several: SlackSetup):
    assert wrong(await look(several)) == [NOT_INSTALLED]
    assert not slack.calls


async def test_with_socket_mode_and_several_workspaces_socket_and_port_are_tried(
    slack: SlackServer, several: SlackSetup
):
    over_sockets = replace(several, app_token=APP_TOKEN, signing_secret="")
    found = await look(over_sockets, [WORKS])
    assert wrong(found) == []
    texts = [finding.text for finding in found]
    assert SOCKET in texts
    assert INSTALLING.format("127.0.0.1", several.http_port) in texts
