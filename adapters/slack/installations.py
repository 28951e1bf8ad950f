"""In which workspaces the app is installed: slack_sdk's interface over our own database.

slack_sdk's own store for SQLAlchemy opens its transactions past the one writer, makes its own tables and keeps tokens
of people, which are never asked for here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime
from logging import Logger
from typing import Final

from slack_bolt.error import BoltError
from slack_sdk.oauth.installation_store.async_installation_store import AsyncInstallationStore
from slack_sdk.oauth.installation_store.models.bot import Bot
from slack_sdk.oauth.installation_store.models.installation import Installation

from adapters.store.installations import Installed, SqlInstallations
from core.errors import DataDirError, ThreadwiseError

log = logging.getLogger(__name__)


class NotListed(ThreadwiseError):
    """The workspace is none of those that may install the app."""

    def __init__(self, place: str) -> None:
        super().__init__(
            f"Threadwise may not be installed in {place}: whoever runs it has to add that to SLACK_TEAMS first."
        )


class Unusable(ThreadwiseError):
    """What Slack replied to an installation is nothing to work with."""


ROTATES: Final = (
    "Slack gave a token that ends after some hours, which is not supported: make an app whose token rotation is off, "
    "from the manifest, and install that."
)
ODD_REPLY: Final = "Slack's reply names no workspace, or has no token of a bot: begin again at /slack/install."
_ID: Final = re.compile(r"[TE][A-Z0-9]{0,30}")
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


class Installations(AsyncInstallationStore):
    """Tokens of bots alone, of `teams` (workspaces and organizations; empty: any). `changed` is awaited after each
    change."""

    def __init__(
        self, rows: SqlInstallations, client_id: str, teams: Collection[str], changed: Callable[[], Awaitable[None]]
    ) -> None:
        self._rows, self._client, self._teams, self._changed = rows, client_id, teams, changed

    @property
    def logger(self) -> Logger:
        return log

    async def async_save(self, installation: Installation) -> None:
        """Raises `NotListed`, `Unusable` or `BoltError`, which the installer is told of."""
        if installation.bot_refresh_token or installation.bot_token_expires_at is not None:
            raise Unusable(ROTATES)
        place = installation.enterprise_id if installation.is_enterprise_install else installation.team_id
        if not _fits(_ID, place) or not _fits(_TOKEN, installation.bot_token):
            raise Unusable(ODD_REPLY)
        try:
            await self.async_save_bot(installation.to_bot())
        except DataDirError as error:
            log.warning("An installation on Slack could not be stored: %s", error)
            raise BoltError("the token could not be stored") from error

    async def async_save_bot(self, bot: Bot) -> None:
        org_wide = bool(bot.is_enterprise_install)
        if not self._is_listed("" if org_wide else bot.team_id, bot.enterprise_id):
            raise NotListed((bot.enterprise_id if org_wide else bot.team_id) or "this workspace")
        await self._rows.save(
            self._client,
            Installed(
                place=(bot.enterprise_id if org_wide else bot.team_id) or "",
                enterprise=bot.enterprise_id or "",
                org_wide=org_wide,
                name=(bot.enterprise_name if org_wide else bot.team_name) or "",
                token=bot.bot_token,
                app=bot.app_id or "",
                bot=bot.bot_id or "",
                user=bot.bot_user_id or "",
                scopes=",".join(bot.bot_scopes or ()),
                at=datetime.now(UTC),
            ),
        )
        await self._changed()

    async def async_find_bot(
        self, *, enterprise_id: str | None, team_id: str | None, is_enterprise_install: bool | None = False
    ) -> Bot | None:
        found = await self._rows.find(self._client, team_id or enterprise_id or "", enterprise_id or "")
        # The list may be shorter than it was.
        if found is None or not self._is_listed(team_id, found.enterprise):
            return None
        return Bot(
            app_id=found.app,
            enterprise_id=found.enterprise or None,
            team_id=team_id,
            team_name=found.name,
            bot_token=found.token,
            bot_id=found.bot,
            bot_user_id=found.user,
            bot_scopes=found.scopes,
            is_enterprise_install=found.org_wide,
            installed_at=found.at,
        )

    def _is_listed(self, team: str | None, enterprise: str | None) -> bool:
        return not self._teams or team in self._teams or enterprise in self._teams

    async def async_delete_bot(self, *, enterprise_id: str | None, team_id: str | None) -> None:
        await self.removed(team_id or enterprise_id or "", datetime.now(UTC))

    async def async_delete_installation(
        self, *, enterprise_id: str | None, team_id: str | None, user_id: str | None = None
    ) -> None:
        """Nothing is kept of the people who installed it."""

    async def removed(self, place: str, at: datetime) -> None:
        """The app was removed at a moment: what was installed since then stays."""
        if await self._rows.remove(self._client, place, at):
            log.warning("Threadwise was removed from the Slack workspace %s", place)
            await self._changed()

    async def places(self) -> dict[str, str]:
        """Tokens by workspace."""
        found = await self._rows.all(self._client)
        return {installed.place: installed.token for installed in found if installed.place != installed.enterprise}


def _fits(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
