"""What the operator decides for Slack."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from adapters.addressing import FollowUps

DEFAULT_URL: Final = "https://slack.com/api/"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackSetup:
    """Empty sets allow everybody and everything."""

    bot_token: str = field(default="", repr=False)
    """Of the one workspace; empty where the app is installed in several."""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    """With which workspaces install the app; set in place of the bot token."""
    teams: frozenset[str] = frozenset()
    """Ids of the workspaces and organizations that may install the app and are answered."""
    app_token: str = field(default="", repr=False)
    """For Socket Mode."""
    signing_secret: str = field(default="", repr=False)
    """For requests over HTTP; set in place of the app token."""
    http_host: str = "127.0.0.1"
    http_port: int = 3000
    """Where they are listened for."""
    api_base_url: str = DEFAULT_URL
    """Of the Web API; the address of the socket comes from there."""
    follow_ups: FollowUps = FollowUps.ALWAYS
    channels: frozenset[str] = frozenset()
    """Ids of the channels in which the bot answers; `T1/C1` is one in that workspace alone."""
    staff: frozenset[str] = frozenset()
    """Ids of people, written alike. When one of them speaks in a thread, the bot says no more there until it is
    mentioned."""
    direct_messages: bool = True
    streams: bool = True
    """Whether answers grow by Slack's own streaming, where it is to be had."""
    name: str = "Threadwise"
    """Of the bot, as people read it."""

    def answers_in(self, team: str, channel: str) -> bool:
        """Whether a channel of a workspace may be answered in."""
        return not self.channels or channel in self.channels_of(team)

    def channels_of(self, team: str) -> frozenset[str]:
        """Those that are listed for a workspace."""
        return _within(team, self.channels)

    def is_staff(self, team: str, user: str) -> bool:
        """Whether somebody in a workspace is listed as staff."""
        return user in _within(team, self.staff)


def _within(team: str, listed: frozenset[str]) -> frozenset[str]:
    return frozenset(name for where, _, name in (one.rpartition("/") for one in listed) if where in ("", team))
