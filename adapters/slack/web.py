"""Slack's Web API, each call once: whether it failed for now, for good, or because of the token.

slack_sdk repeats calls by itself, and with them posts; here nothing is repeated but by the outbox.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from core.certificate import advice, why_refused
from core.errors import ChannelBusy, ChannelError, ChannelGone, ConfigError

log = logging.getLogger(__name__)
Json = dict[str, Any]

BASE_URL: Final = "SLACK_API_BASE_URL"
SECONDS: Final = 15
"""Of one call."""
DEFAULT_WAIT: Final = 2.0
"""When Slack asks to wait and does not say how long."""
ONE_BY_ONE: Final = 60.0
"""Seconds after such a wait; Slack counts by the minute."""
SHORTEST_WAIT: Final = 0.01
"""Timers may ring that much too soon."""

_READS: Final = ("conversations.", "users.", "files.", "bots.")
"""Methods that take no JSON."""
_GONE: Final = frozenset(
    "channel_not_found not_in_channel is_archived message_not_found thread_not_found thread_locked cant_update_message "
    "cant_delete_message edit_window_closed restricted_action restricted_action_thread_only_channel "
    "restricted_action_read_only_channel restricted_action_thread_locked channel_type_not_supported "
    "messages_tab_disabled user_not_found user_disabled access_denied team_access_not_granted "
    "posting_to_channel_denied team_not_found".split()
)
"""No later try helps."""
REFUSED: Final = frozenset(
    "invalid_auth not_authed account_inactive token_revoked token_expired not_allowed_token_type "
    "org_login_required".split()
)
"""The token is not good, for any call."""


class SlackRefusal(ChannelError):
    """Slack did not take what was asked, and says why; the call had no effect."""

    def __init__(self, error: str, needed: str = "") -> None:
        scope = f": the app lacks the scope {needed}" if needed else ""
        super().__init__(f"Slack refused a call ({error}){scope}.")
        self.error = error


class NotSlack(ChannelError):
    """Something else than Slack's Web API answers at its address."""

    def __init__(self) -> None:
        super().__init__(
            "what answers is not Slack's Web API: check SLACK_API_BASE_URL (https://slack.com/api unless you have "
            "GovSlack) and the proxy."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The bot in one workspace."""

    user: str
    bot: str
    team: str
    team_name: str = ""
    scopes: frozenset[str] = frozenset()
    """What its token was granted; empty if that is not known."""


class SlackWeb:
    """The Web API with one bot token."""

    def __init__(self, token: str, api_url: str) -> None:
        self.client = AsyncWebClient(
            token=token, base_url=f"{api_url.rstrip('/')}/", timeout=SECONDS, retry_handlers=[]
        )
        self.refusal: ConfigError | None = None
        """Why the token is of no use; no call is made any more."""
        self._busy: dict[tuple[str, str], float] = {}
        """Until when all wait before a method, for posts in a channel, since Slack has asked one to."""
        self._turns: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        """After that they go one by one for a while, else all who waited would come at once."""
        self._me: Identity | None = None

    async def me(self) -> Identity:
        """Who the token belongs to."""
        if self._me is None:
            reply = await self._reply("auth.test", {})
            told = _told(reply)
            if not {"user_id", "team_id"} <= told.keys():
                raise NotSlack
            granted = _header(reply, "x-oauth-scopes")
            self._me = Identity(
                user=str(told["user_id"]),
                bot=str(told.get("bot_id")),
                team=str(told["team_id"]),
                team_name=str(told.get("team") or ""),
                scopes=frozenset(filter(None, map(str.strip, granted.split(",")))),
            )
        return self._me

    async def call(self, method: str, **arguments: Any) -> Json:
        """The reply to one call. Raises `ChannelBusy`, `ChannelGone`, `SlackRefusal` or `ChannelError`."""
        return _told(await self._reply(method, arguments))

    async def _reply(self, method: str, arguments: Json) -> AsyncSlackResponse:
        counted = method, str(arguments.get("channel", "")) if method == "chat.postMessage" else ""
        if self._busy.get(counted, 0.0) < time.monotonic() - ONE_BY_ONE:
            return await self._called(method, arguments, counted)
        async with self._turns[counted]:
            if (left := self._busy.get(counted, 0.0) - time.monotonic()) > SHORTEST_WAIT:
                raise ChannelBusy(f"Slack asked to wait before {method}.", retry_after=left)
            return await self._called(method, arguments, counted)

    async def _called(self, method: str, arguments: Json, counted: tuple[str, str]) -> AsyncSlackResponse:
        if self.refusal is not None:
            raise ChannelError(str(self.refusal))
        try:
            if method.startswith(_READS):
                return await self.client.api_call(method, http_verb="GET", params=arguments)
            return await self.client.api_call(method, json=arguments)
        except SlackApiError as error:
            failure = self._failure(method, error)
            if isinstance(failure, ChannelBusy):
                self._wait(counted, failure.retry_after or 0.0)
            raise failure from error
        except SlackClientError as error:
            raise ChannelError(f"Slack's reply to {method} could not be read.") from error
        except Exception as error:  # aiohttp's many, and what it lets through
            if (why := why_refused(error)) is not None:
                raise ChannelError(f"Slack did not answer {method}: {advice(why, BASE_URL)}") from error
            raise ChannelError(f"Slack did not answer {method} ({type(error).__name__}).") from error

    def _wait(self, counted: tuple[str, str], seconds: float) -> None:
        now = time.monotonic()
        self._busy[counted] = max(now + seconds, self._busy.get(counted, 0.0))
        for what in [what for what, until in self._busy.items() if until < now - ONE_BY_ONE]:
            del self._busy[what]
            self._turns.pop(what, None)

    def _failure(self, method: str, failed: SlackApiError) -> ChannelError:
        status = getattr(failed.response, "status_code", 0)
        data = getattr(failed.response, "data", None)
        told: Json = dict(data) if isinstance(data, Mapping) else {}
        error = str(told.get("error") or "")
        if status == 429 or error in ("ratelimited", "rate_limited"):
            return ChannelBusy(f"Slack asks to wait before {method}.", retry_after=_seconds(failed, told))
        if error in REFUSED:
            self.refusal = ConfigError(
                f"Slack refuses the token ({error}): check SLACK_BOT_TOKEN, and install the app."
            )
            return ChannelError(str(self.refusal))
        if error in _GONE:
            return ChannelGone(f"Slack has no place for it ({error}).")
        if not error and status < 500:
            return NotSlack()
        if status >= 500 or error in ("internal_error", "fatal_error", "service_unavailable"):
            return ChannelError(f"Slack failed at {method} ({error or status}).")
        return SlackRefusal(error, str(told.get("needed") or ""))


def _seconds(failed: SlackApiError, told: Json) -> float:
    for value in (_header(failed.response, "retry-after"), told.get("retry_after")):
        try:
            return max(0.0, float(str(value)))
        except ValueError:
            continue
    return DEFAULT_WAIT


def _told(reply: AsyncSlackResponse) -> Json:
    return dict(reply.data) if isinstance(reply.data, Mapping) else {}


def _header(reply: AsyncSlackResponse, name: str) -> str:
    headers = {str(key).lower(): str(value) for key, value in (reply.headers or {}).items()}
    return headers.get(name, "")
