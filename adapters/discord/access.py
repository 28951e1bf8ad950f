"""Who may ask, and where."""

from __future__ import annotations

import time
from typing import Final

import discord

from adapters.discord.places import Place, is_private, parent_of, server_of
from adapters.discord.setup import DiscordSetup

MEMBERSHIP_SECONDS: Final = 300.0
"""How long it is believed that somebody is a member, with which roles."""


class Access:
    """The operator's lists, looked up."""

    def __init__(self, setup: DiscordSetup) -> None:
        self._setup = setup
        self._members: dict[int, tuple[float, bool]] = {}

    def open_place(self, place: Place) -> bool:
        """Whether the bot speaks there at all."""
        if is_private(place):
            return self._setup.private_messages
        setup = self._setup
        if setup.servers and server_of(place) not in setup.servers:
            return False
        category = getattr(place, "category_id", None)
        return not setup.channels or bool({parent_of(place), category} & setup.channels)

    def open_to(self, interaction: discord.Interaction) -> bool:
        """What can be said at once, before an interaction is acknowledged."""
        place, user = interaction.channel, interaction.user
        if place is None or isinstance(place, (discord.ForumChannel, discord.CategoryChannel)):
            return False
        if not self.open_place(place):
            return False
        return not isinstance(user, discord.Member) or self._has_role(user)

    async def may_ask(self, author: discord.User | discord.Member, place: Place, client: discord.Client) -> bool:
        """Whether the bot answers them there."""
        setup = self._setup
        if not self.open_place(place):
            return False
        if isinstance(author, discord.Member):
            return self._has_role(author)
        if not setup.roles and not setup.servers:
            return True
        # In private: whoever may ask on a server.
        at, allowed = self._members.get(author.id, (-MEMBERSHIP_SECONDS, False))
        if time.monotonic() - at >= MEMBERSHIP_SECONDS:
            allowed = await self._is_member(author.id, client)
            self._members[author.id] = (time.monotonic(), allowed)
        return allowed

    def is_staff(self, author: discord.User | discord.Member) -> bool:
        """Whether the bot leaves a thread to them."""
        return isinstance(author, discord.Member) and any(role.id in self._setup.staff_roles for role in author.roles)

    def _has_role(self, member: discord.Member) -> bool:
        return not self._setup.roles or any(role.id in self._setup.roles for role in member.roles)

    async def staff_among(self, users: set[int], guild: discord.Guild) -> set[int]:
        """Those of `users` whom the bot leaves a thread to: old messages do not tell the roles of their authors."""
        if not self._setup.staff_roles:
            return set()
        found = set()
        for user in users:
            try:
                member = await guild.fetch_member(user)
            except discord.NotFound:
                continue
            if self.is_staff(member):
                found.add(user)
        return found

    async def _is_member(self, user: int, client: discord.Client) -> bool:
        for guild in client.guilds:
            if self._setup.servers and guild.id not in self._setup.servers:
                continue
            try:
                member = await guild.fetch_member(user)
            except discord.HTTPException:
                continue
            if self._has_role(member):
                return True
        return False
