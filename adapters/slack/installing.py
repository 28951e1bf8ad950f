"""How workspaces install the app: a page that leads to Slack, and the address to which Slack leads back."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections import OrderedDict
from logging import Logger
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response
from slack_bolt.oauth.async_oauth_flow import AsyncOAuthFlow
from slack_bolt.oauth.async_oauth_settings import AsyncOAuthSettings
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.oauth.state_store.async_state_store import AsyncOAuthStateStore
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.checkup import wanted_scopes
from adapters.slack.installations import Installations, NotListed, Unusable
from adapters.slack.listeners import bolt_log
from adapters.slack.setup import SlackSetup
from adapters.slack.workspaces import Workspaces

log = logging.getLogger(__name__)

INSTALL: Final = "/slack/install"
REDIRECT: Final = "/slack/oauth_redirect"
GOVERNMENT: Final = "slack-gov.com"
STATE_SECONDS: Final = 600
"""From the page until Slack leads back."""
MOST_STATES: Final = 10_000
"""Anybody may look at the page; the oldest are forgotten first."""
NOT_NOW: Final = "Slack could not be asked just now. Begin again at /slack/install in a minute."


class States(AsyncOAuthStateStore):
    """What an installation is known by until Slack leads back, each good once. After a restart one begins again."""

    def __init__(self, seconds: float = STATE_SECONDS) -> None:
        self._seconds = seconds
        self._issued: OrderedDict[str, float] = OrderedDict()

    @property
    def logger(self) -> Logger:
        return log

    async def async_issue(self, *args: Any, **kwargs: Any) -> str:
        state = secrets.token_urlsafe(32)
        self._issued[state] = time.monotonic()
        while len(self._issued) > MOST_STATES:
            self._issued.popitem(last=False)
        return state

    async def async_consume(self, state: str) -> bool:
        issued = self._issued.pop(state, None)
        return issued is not None and time.monotonic() - issued < self._seconds


class InstallFlow(AsyncOAuthFlow):
    """Bolt's, with the workspace of the link as Slack's own ids are written, and nothing else behind it."""

    async def build_authorize_url(self, state: str, request: AsyncBoltRequest) -> str:
        team = str((request.query.get("team") or [""])[0])
        known = team if re.fullmatch(r"[TE][A-Z0-9]{1,30}", team) else None
        return self.settings.authorize_url_generator.generate(state=state, team=known)


def install_flow(setup: SlackSetup, client: AsyncWebClient, installations: Installations) -> InstallFlow:
    """What both addresses do."""
    # A proxy of the Web API is not where people sign in.
    host = GOVERNMENT if urlsplit(setup.api_base_url).netloc == GOVERNMENT else "slack.com"
    return InstallFlow(
        client=client,
        logger=bolt_log(),
        settings=AsyncOAuthSettings(
            client_id=setup.client_id,
            client_secret=setup.client_secret,
            scopes=sorted(wanted_scopes()),
            user_scopes=[],
            install_path=INSTALL,
            redirect_uri_path=REDIRECT,
            authorization_url=f"https://{host}/oauth/v2/authorize",
            installation_store=installations,
            installation_store_bot_only=True,
            state_store=States(),
            state_expiration_seconds=STATE_SECONDS,
            logger=bolt_log(),
        ),
    )


def install_routes(workspace: object) -> list[web.RouteDef]:
    """The two addresses; none where one workspace has its token in the settings."""
    if not isinstance(workspace, Workspaces):
        return []
    flow = install_flow(workspace.setup, workspace.client, workspace.installations)

    async def install(request: web.Request) -> web.Response:
        return await to_aiohttp_response(await flow.handle_installation(_asked(request)))

    async def redirected(request: web.Request) -> web.Response:
        try:
            return await to_aiohttp_response(await flow.handle_callback(_asked(request)))
        except NotListed as refusal:
            log.warning("%s", refusal)
            return web.Response(status=403, text=str(refusal))
        except Unusable as refusal:
            log.warning("An installation on Slack was refused: %s", refusal)
            return web.Response(status=502, text=str(refusal))
        except Exception as error:  # noqa: BLE001 - aiohttp's many, and what Bolt makes of an odd reply
            log.warning("An installation on Slack failed: %s", type(error).__name__)
            return web.Response(status=502, text=NOT_NOW)

    return [web.get(INSTALL, install), web.get(REDIRECT, redirected)]


def _asked(request: web.Request) -> AsyncBoltRequest:
    """Without a body, which means nothing here: Bolt's own takes anybody's word for how it is encoded."""
    return AsyncBoltRequest(body="", query=request.query_string, headers=dict(request.headers))
