"""Whether the bot can do its work on Slack: the tokens are really tried, and what they may do is compared with the
manifest; over HTTP the port is tried. Nothing is posted, and no connection is made."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any, Final

import yaml
from slack_sdk.errors import SlackApiError

from adapters.checkup import Finding
from adapters.slack.setup import DEFAULT_URL, SlackSetup
from adapters.slack.web import BASE_URL, REFUSED, Identity, NotSlack, SlackWeb
from adapters.store.installations import Installed
from core.errors import ChannelError

NOT_TOLD: Final = (
    "Slack: which events, shortcuts and commands the app has, no token can ask. If mentions stay unanswered, paste "
    "adapters/slack/{} under App Manifest and install the app again."
)
NO_CHANNEL: Final = "Slack: the bot is in no channel yet: write /invite @Threadwise in those in which it is to answer."
SOCKET: Final = "Slack: the app-level token opens Socket Mode."
HTTP: Final = (
    "Slack: its requests are listened for at http://{}:{}/slack/events. Whether the public address in the app's "
    "manifest leads there, and whether SLACK_SIGNING_SECRET is the app's, only Slack can try: save the address under "
    "Event Subscriptions while `threadwise run` runs."
)
INSTALLING: Final = (
    "Slack: those who install the app are listened for at http://{}:{}/slack/install. Whether a public address leads "
    "there, and is the app's Redirect URL, only an installation can tell."
)
NOT_INSTALLED: Final = (
    "Slack: no workspace has installed the app yet: open /slack/install at your public address while `threadwise run` "
    "runs."
)
NOT_GOOD: Final = "Slack: the installation in {} cannot be used ({}): if it stays so, install the app there again."
NO_PORT: Final = "Slack: SLACK_HTTP_HOST {} with SLACK_HTTP_PORT {} cannot be listened at ({}): set another."
REFUSED_APP_TOKEN: Final = (
    "Slack refuses SLACK_APP_TOKEN ({}): make one under Basic Information, App-Level Tokens, with the scope "
    "connections:write."
)
NO_SOCKET: Final = "Slack opens no Socket Mode ({}): switch it on under Socket Mode in the app's settings."
OTHER_APP: Final = (
    "SLACK_APP_TOKEN is of the app {}, SLACK_BOT_TOKEN of the app {}: take both tokens from the same app, or no event "
    "comes in."
)
MOST_PAGES: Final = 5
PAGE: Final = 200
KINDS: Final = "public_channel,private_channel"


async def look(setup: SlackSetup, installed: Sequence[Installed] = ()) -> list[Finding]:
    """What was found; with several workspaces in those where the app is `installed`."""
    found, me = (await _several(setup, installed)) if setup.client_id else (await _workspace(setup))
    if me is None and not setup.client_id:
        return found
    found += await (_http(setup) if setup.signing_secret else _socket(setup, me))
    if setup.client_id and not setup.signing_secret:
        found += await _http(setup, INSTALLING)
    manifest = "manifest_http.yaml" if setup.signing_secret else "manifest.yaml"
    return [*found, Finding(good=True, text=NOT_TOLD.format(manifest))]


async def _several(setup: SlackSetup, installed: Sequence[Installed]) -> tuple[list[Finding], Identity | None]:
    if not installed:
        return [Finding(good=False, text=NOT_INSTALLED)], None
    found, known = list[Finding](), None
    for one in installed:
        seen, me = await _workspace(replace(setup, bot_token=one.token))
        if me is None:
            seen = [
                Finding(good=False, text=NOT_GOOD.format(one.name or one.place, seen[0].text.partition(": check ")[0]))
            ]
        name = f"Slack, {one.name or one.place}:"
        found += [replace(finding, text=finding.text.replace("Slack:", name, 1)) for finding in seen]
        known = me or known
    return found, known


async def _workspace(setup: SlackSetup) -> tuple[list[Finding], Identity | None]:
    """What one token can do, and whose it is; None if it can do nothing."""
    web = SlackWeb(setup.bot_token, setup.api_base_url)
    try:
        me = await web.me()
    except NotSlack as error:
        return [Finding(good=False, text=f"Slack, {setup.api_base_url}: {error}")], None
    except ChannelError as error:
        return [Finding(good=False, text=_unreachable(web, setup, error))], None
    at = "" if setup.api_base_url.rstrip("/") == DEFAULT_URL.rstrip("/") else f" (by {setup.api_base_url})"
    found = [Finding(good=True, text=f"Slack: the bot token is good in the workspace {me.team_name}, {me.team}{at}.")]
    return [*found, _scopes(me), *await _channels(web, setup, me)], me


def _unreachable(web: SlackWeb, setup: SlackSetup, error: ChannelError) -> str:
    if web.refusal is not None:
        return str(web.refusal)
    return f"Slack cannot be reached at {setup.api_base_url}: {error} Check {BASE_URL}, the network and the proxy."


def _scopes(me: Identity) -> Finding:
    if not me.scopes:
        return Finding(good=True, text="Slack: it does not tell which scopes the bot token has.")
    if missing := sorted(wanted_scopes() - me.scopes):
        lacks = f"Slack: the bot token lacks {', '.join(missing)}"
        return Finding(good=False, text=f"{lacks}: add them under OAuth & Permissions, then install the app again.")
    return Finding(good=True, text="Slack: the bot token has all scopes of the manifest.")


def wanted_scopes() -> frozenset[str]:
    """Those that the manifest asks for."""
    manifest: dict[str, Any] = yaml.safe_load(files("adapters.slack").joinpath("manifest.yaml").read_text("utf-8"))
    return frozenset(manifest["oauth_config"]["scopes"]["bot"])


async def _channels(web: SlackWeb, setup: SlackSetup, me: Identity) -> list[Finding]:
    member, cursor = set[str](), ""
    try:
        for _ in range(MOST_PAGES):
            more = {"cursor": cursor} if cursor else {}
            page = await web.call("users.conversations", types=KINDS, exclude_archived="true", limit=PAGE, **more)
            member |= {str(channel["id"]) for channel in page.get("channels") or []}
            cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                break
    except ChannelError as error:
        return [Finding(good=False, text=f"Slack: its channels could not be listed: {error}")]
    if not member:
        return [Finding(good=False, text=NO_CHANNEL)]
    own = f"{me.team}/"
    strange = sorted(one for one in setup.channels | setup.staff if "/" in one and not one.startswith(own))
    if strange and not setup.client_id:
        found = f"Slack: {', '.join(strange)} in SLACK_CHANNELS or SLACK_STAFF is not in this workspace, {me.team}"
        return [Finding(good=False, text=f"{found}: correct the ids.")]
    # Where there are several workspaces, an id alone may be that of a channel in any of them.
    listed = setup.channels_of(me.team) - (setup.channels if setup.client_id else frozenset())
    if not cursor and (absent := sorted(listed - member)):
        text = f"Slack: the bot is not in {', '.join(absent)} of SLACK_CHANNELS: invite it there, or correct the ids."
        return [Finding(good=False, text=text)]
    many = f"{len(member)}{' or more' if cursor else ''} channel{'s' if len(member) > 1 else ''}"
    return [Finding(good=True, text=f"Slack: the bot is in {many}.")]


async def _socket(setup: SlackSetup, me: Identity | None) -> list[Finding]:
    web = SlackWeb(setup.bot_token, setup.api_base_url)
    try:
        await web.client.apps_connections_open(app_token=setup.app_token)
    except SlackApiError as error:
        reason = str(error.response.get("error") or error.response.status_code)
        is_token = reason in REFUSED or reason in ("missing_scope", "no_permission")
        return [Finding(good=False, text=(REFUSED_APP_TOKEN if is_token else NO_SOCKET).format(reason))]
    except Exception as error:  # noqa: BLE001 - aiohttp's many
        text = f"Slack did not answer apps.connections.open ({type(error).__name__}): try again."
        return [Finding(good=False, text=text)]
    apps = _app_of(setup.app_token), await _app_of_bot(web, me) if me and setup.bot_token else ""
    if all(apps) and apps[0] != apps[1]:
        return [Finding(good=False, text=OTHER_APP.format(*apps))]
    return [Finding(good=True, text=SOCKET)]


async def _http(setup: SlackSetup, free: str = HTTP) -> list[Finding]:
    host, port = setup.http_host, setup.http_port
    try:
        async with await asyncio.start_server(lambda _, writer: writer.close(), host, port):
            return [Finding(good=True, text=free.format(host, port))]
    except (OSError, UnicodeError) as error:  # a name that no server of names would take
        why = (getattr(error, "strerror", "") or type(error).__name__).rpartition(": ")[2]
        return [Finding(good=False, text=NO_PORT.format(host, port, why))]


def _app_of(token: str) -> str:
    """The id of its app, which an app-level token holds; empty if this one does not."""
    found = re.match(r"xapp-\d+-(A[A-Z0-9]+)-", token)
    return found[1] if found else ""


async def _app_of_bot(web: SlackWeb, me: Identity) -> str:
    try:
        told = await web.call("bots.info", bot=me.bot)
    except ChannelError:
        return ""
    return str((told.get("bot") or {}).get("app_id") or "")
