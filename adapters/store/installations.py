"""In which workspaces a Slack app is installed, with the token of each."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime

from sqlalchemy import and_, delete, or_, select

from adapters.store.database import Database
from adapters.store.models import InstallationRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """An app in one workspace, or in all of an organization."""

    place: str
    """Id of the workspace, or of the organization."""
    enterprise: str = ""
    """Id of the organization that the workspace is in, if there is one."""
    org_wide: bool = False
    """Whether the token is good for the whole organization."""
    name: str = ""
    token: str = field(repr=False)
    app: str = ""
    bot: str
    user: str
    scopes: str = ""
    """With commas between them."""
    at: datetime


class SqlInstallations:
    """Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def save(self, client: str, installed: Installed) -> None:
        """Stores it in the place of what was known of its workspace."""
        await self.database.run(self._save(client, installed))

    async def find(self, client: str, team: str, enterprise: str) -> Installed | None:
        """What is good for a workspace. Under an installation for its organization it is known by itself from then
        on: later only the workspace may be told."""
        return await self.database.run(self._find(client, team, enterprise))

    async def all(self, client: str) -> list[Installed]:
        """Those of the app with this client id, the oldest first."""
        return await self.database.run(self._all(client))

    async def remove(self, client: str, place: str, before: datetime) -> bool:
        """Forgets what was installed before a moment in a workspace, or in an organization with all that are in it by
        that; whether there was anything."""
        return await self.database.run(self._remove(client, place, before))

    async def _save(self, client: str, installed: Installed) -> None:
        async with self.database.write() as session:
            known = and_(InstallationRow.client == client, InstallationRow.place == installed.place)
            await session.execute(delete(InstallationRow).where(known))
            session.add(_row(client, installed))

    async def _find(self, client: str, team: str, enterprise: str) -> Installed | None:
        ours = select(InstallationRow).where(InstallationRow.client == client)
        async with self.database.read() as session:
            if row := await session.scalar(ours.where(InstallationRow.place == team)):
                return _installed(row)
        if not (team and enterprise):
            return None
        async with self.database.write() as session:
            of_all = and_(InstallationRow.place == enterprise, InstallationRow.org_wide.is_(True))
            row = await session.scalar(ours.where(of_all))
            if row is None:
                return None
            here = replace(_installed(row), place=team, enterprise=enterprise)
            if await session.scalar(ours.where(InstallationRow.place == team)) is None:
                session.add(_row(client, here))
            return here

    async def _all(self, client: str) -> list[Installed]:
        rows = select(InstallationRow).where(InstallationRow.client == client).order_by(InstallationRow.id)
        async with self.database.read() as session:
            return [_installed(row) for row in await session.scalars(rows)]

    async def _remove(self, client: str, place: str, before: datetime) -> bool:
        under = and_(InstallationRow.enterprise == place, InstallationRow.org_wide.is_(True))
        theirs = and_(InstallationRow.client == client, or_(InstallationRow.place == place, under))
        async with self.database.write() as session:
            rows = delete(InstallationRow).where(theirs, InstallationRow.at <= before).returning(InstallationRow.id)
            return bool((await session.scalars(rows)).all())


def _row(client: str, installed: Installed) -> InstallationRow:
    return InstallationRow(client=client, **asdict(installed))


def _installed(row: InstallationRow) -> Installed:
    return Installed(**{field.name: getattr(row, field.name) for field in fields(Installed)})
