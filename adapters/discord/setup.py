"""What the operator decides for Discord."""

from __future__ import annotations

from dataclasses import dataclass, field

from adapters.addressing import FollowUps


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordSetup:
    """Empty sets allow everybody and everything."""

    token: str = field(repr=False)
    api_base_url: str | None = None
    """Of a proxy of Discord's API, as "https://discord.com/api/v10". None: Discord itself."""
    message_content: bool = True
    """Whether to ask for the privileged intent; without it only mentions, replies and private messages can be read."""
    shards: int = 1
    follow_ups: FollowUps = FollowUps.ALWAYS
    servers: frozenset[int] = frozenset()
    channels: frozenset[int] = frozenset()
    """Channels or categories; threads count as their channel."""
    roles: frozenset[int] = frozenset()
    """Whoever has one of these may ask."""
    staff_roles: frozenset[int] = frozenset()
    """When one of these speaks in a thread, the bot says no more there until it is mentioned."""
    forums: frozenset[int] = frozenset()
    """Forums in which each new post is answered; elsewhere a post needs a mention."""
    private_messages: bool = True
