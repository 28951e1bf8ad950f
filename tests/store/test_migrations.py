"""Tables come from migrations alone, and a migration happens as a whole or not at all."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Integer, create_engine
from sqlalchemy.dialects import registry
from sqlalchemy.schema import CreateTable, MetaData

from adapters.ports import TurnState
from adapters.store import SqlConversationStore, files, migrations
from adapters.store.migrations import upgrade
from adapters.store.models import metadata
from core.errors import DataDirError
from tests.store.builders import answer, ask, finish, key, mode, names_in, precious, said
from tests.store.conftest import Opener

REBUILD = """
    with op.batch_alter_table("threads", recreate="always") as threads:
        threads.add_column(sa.Column("colour", sa.Text(), nullable=True))
"""
FAIL = """
    raise ValueError("halfway\\nthrough")
"""
STEP = """
import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade():
"""


@pytest.fixture
def next_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """From now on this is a Threadwise with one more migration."""

    def become(body: str) -> None:
        steps = tmp_path / "50% steps?"
        shutil.copytree(upgrade.STEPS, steps)
        (steps / "versions" / "v0006_next.py").write_text(STEP + body)
        monkeypatch.setattr(upgrade, "STEPS", steps)
        monkeypatch.setattr(migrations, "HEAD", "0006")
        monkeypatch.setattr(files, "HEAD", "0006")
        monkeypatch.setattr(files, "REVISIONS", ("0001", "0002", "0003", "0004", "0005", "0006"))

    return become


async def filled(open_store: Opener) -> None:
    store = await open_store()
    for n in range(3):
        job = await ask(store, said(f"m{n}"))
        assert job is not None
        await finish(store, job, answer(), TurnState.ANSWERED)
    await store.close()


def differences(path: Path, wanted: MetaData) -> list[object]:
    engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(path))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        found = compare_metadata(context, wanted)
    engine.dispose()
    return list(found)


async def test_the_migrations_make_the_tables_of_the_models(store: SqlConversationStore, path: Path):
    assert differences(path, metadata) == []


async def test_a_column_without_a_migration_would_be_noticed(store: SqlConversationStore, path: Path):
    wanted = MetaData(naming_convention=metadata.naming_convention)
    for table in metadata.tables.values():
        table.to_metadata(wanted)
    wanted.tables["turns"].append_column(Column("forgotten", Integer))
    assert len(differences(path, wanted)) == 1


def test_the_tables_can_be_made_in_postgresql():
    postgresql = registry.load("postgresql")()
    made = {table.name: str(CreateTable(table).compile(dialect=postgresql)) for table in metadata.sorted_tables}
    assert "TIMESTAMP WITH TIME ZONE" in made["turns"]
    assert "SERIAL" in made["turns"]


def test_the_revisions_we_name_are_those_alembic_finds():
    config = Config()
    config.set_main_option("script_location", str(upgrade.STEPS))
    found = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert tuple(reversed(found)) == migrations.REVISIONS


async def test_an_older_database_is_copied_then_updated_with_all_its_turns(
    open_store: Opener, path: Path, next_version: Callable[[str], None]
):
    """The step rebuilds `threads`: with foreign keys on, that would have deleted every turn."""
    await filled(open_store)
    next_version(REBUILD)
    store = await open_store()
    assert [turn.message_id for turn in await store.turns(key())] == ["m0", "m1", "m2"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("0006",)]
        assert connection.execute("SELECT colour FROM threads").fetchall() == [(None,)]
    backup = path.with_name("threadwise.db.before-0006")
    assert mode(backup) == 0o600
    assert [name for name in names_in(path.parent) if "before" in name] == [backup.name]


async def test_the_backup_restores(
    open_store: Opener, path: Path, next_version: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
):
    await filled(open_store)
    next_version(REBUILD)
    await (await open_store()).close()
    path.with_name("threadwise.db.before-0006").replace(path)
    monkeypatch.undo()
    store = await open_store()
    assert [turn.answered for turn in await store.turns(key())] == ["With pip [1]."] * 3


async def test_a_fresh_database_is_not_copied(open_store: Opener, path: Path):
    await open_store()
    assert not [name for name in names_in(path.parent) if "before" in name]


async def test_a_migration_that_fails_leaves_the_database_as_it_was(
    open_store: Opener, path: Path, next_version: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
):
    await filled(open_store)
    before = precious(path.parent)
    next_version(REBUILD + FAIL)
    with pytest.raises(DataDirError, match=r"could not be updated \(halfway through\).*before-0006") as caught:
        await open_store()
    assert "\n" not in str(caught.value)
    assert precious(path.parent)["threadwise.db"] == before["threadwise.db"]
    monkeypatch.undo()
    assert len(await (await open_store()).turns(key())) == 3


async def test_no_migration_without_its_backup(open_store: Opener, path: Path, next_version: Callable[[str], None]):
    await filled(open_store)
    before = precious(path.parent)
    next_version(REBUILD)
    # The place of the copy is taken by something that no file can replace.
    path.with_name("threadwise.db.before-0006").mkdir()
    with pytest.raises(DataDirError, match="cannot be used"):
        await open_store()
    assert precious(path.parent) == before


async def test_a_database_of_a_newer_version_is_refused_and_untouched(open_store: Opener, path: Path):
    await filled(open_store)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    before = precious(path.parent)
    with pytest.raises(DataDirError, match=r"made by a newer Threadwise: update .*DATA_DIR"):
        await open_store()
    assert precious(path.parent) == before


async def test_the_database_of_another_program_is_refused_and_untouched(open_store: Opener, path: Path):
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (id INTEGER)")
    before = precious(path.parent)
    with pytest.raises(DataDirError, match="not a Threadwise database"):
        await open_store()
    assert precious(path.parent) == before


async def test_a_start_without_a_migration_is_quick(open_store: Opener):
    await filled(open_store)
    times = []
    for _ in range(3):
        started = time.perf_counter()
        store = await open_store()
        times.append(time.perf_counter() - started)
        await store.close()
    assert min(times) < 0.15
