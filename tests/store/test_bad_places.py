"""A data directory that cannot be used is told in one line, and what is in it stays as it is."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from adapters.jobs import Job
from adapters.ports import TurnState
from adapters.store import SqlConversationStore
from adapters.store.rows import new_thread, new_turn
from core.errors import DataDirError
from tests.store.builders import NOON, answer, ask, finish, key, mode, names_in, precious, said, set_mode
from tests.store.conftest import Opener


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Root may write everywhere; for a moment we are somebody who may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory of an ordinary user, outside of pytest's own, which are root's alone."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(directory, 65534, 65534)
    yield directory
    directory.chmod(0o755)
    shutil.rmtree(directory)


async def fill(store: SqlConversationStore, turns: int = 40) -> None:
    async with store.database.write() as session:
        session.add(new_thread(key(), NOON))
        await session.flush()
        for n in range(turns):
            row = new_turn(said(f"m{n}", f"question {n} " * 40), thread_id=1, seq=n + 1)
            row.answered, row.state = f"answer {n} " * 40, TurnState.ANSWERED
            session.add(row)


async def crashed(open_store: Opener, directory: Path) -> Path:
    """A database as a killed process leaves it: part of it in the write-ahead log. Returns its path."""
    store = await open_store(directory / "alive" / "threadwise.db")
    await fill(store)
    await store.database.empty_log()
    await ask(store, said("in the log"))
    left = directory / "left"
    shutil.copytree(directory / "alive", left)
    (left / "threadwise.db-shm").unlink()
    assert (left / "threadwise.db-wal").stat().st_size > 0
    return left / "threadwise.db"


def garbage_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"garbage " * 12)


def garbled_page(path: Path) -> None:
    with path.open("r+b") as file:
        # Far behind the first pages of the tables, which a newer turn has in the log.
        file.seek(path.stat().st_size * 3 // 4 // 4096 * 4096)
        file.write(os.urandom(4096))


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def removed(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [garbage_header, garbled_page, cut_short])
async def test_a_damaged_database_is_refused_by_name_and_untouched(
    open_store: Opener, path: Path, damage: Callable[[Path], None]
):
    store = await open_store()
    await fill(store)
    await store.close()
    assert names_in(path.parent) == [path.name]
    await refused_untouched(open_store, path, damage)


@pytest.mark.parametrize("damage", [garbled_page, cut_short, emptied, removed])
async def test_damage_beside_a_log_of_newer_turns_costs_not_even_the_log(
    open_store: Opener, tmp_path: Path, damage: Callable[[Path], None]
):
    """A connection that may write would, when closed, put the log into the ruin and remove it."""
    await refused_untouched(open_store, await crashed(open_store, tmp_path), damage)


async def refused_untouched(open_store: Opener, path: Path, damage: Callable[[Path], None]) -> None:
    damage(path)
    path.with_name("threadwise.db.before-0001").write_bytes(b"a backup")
    before = precious(path.parent)
    with pytest.raises(DataDirError) as caught:
        await open_store(path)
    told = str(caught.value)
    assert told.startswith(f"{path} is damaged (")
    assert "put the backup threadwise.db.before-0001 in its place, or move it away" in told
    assert "\n" not in told
    assert precious(path.parent) == before


async def test_what_a_killed_process_left_is_sound_without_damage(open_store: Opener, tmp_path: Path):
    store = await open_store(await crashed(open_store, tmp_path))
    assert [turn.message_id for turn in await store.turns(key())][-1] == "in the log"


async def test_a_missing_database_beside_an_index_is_made_anew(open_store: Opener, path: Path):
    path.parent.mkdir()
    (path.parent / "index").mkdir()
    store = await open_store()
    assert await ask(store, said("m1")) is not None


async def test_directory_and_files_are_for_their_owner_alone(open_store: Opener, path: Path):
    before = os.umask(0)
    try:
        store = await open_store()
        await ask(store, said("m1"))
    finally:
        os.umask(before)
    assert mode(path.parent) == 0o700
    modes = {file.name: mode(file) for file in path.parent.iterdir()}
    assert modes == dict.fromkeys(["threadwise.db", "threadwise.db-wal", "threadwise.db-shm"], 0o600)


async def test_a_database_that_others_can_read_is_closed_to_them(open_store: Opener, path: Path):
    await (await open_store()).close()
    set_mode(path, 0o644)
    await open_store()
    assert mode(path) == 0o600


async def test_a_directory_whose_parent_is_missing_is_not_made(open_store: Opener, tmp_path: Path):
    with pytest.raises(DataDirError, match="no/where does not exist: create it"):
        await open_store(tmp_path / "no" / "where" / "data" / "threadwise.db")
    assert names_in(tmp_path) == []


async def test_a_file_for_a_directory_and_a_directory_for_a_file_are_refused(open_store: Opener, tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(DataDirError, match="file is not a directory"):
        await open_store(tmp_path / "file" / "threadwise.db")
    (tmp_path / "threadwise.db").mkdir()
    with pytest.raises(DataDirError, match=r"threadwise\.db is not a file"):
        await open_store(tmp_path / "threadwise.db")


async def test_a_read_only_directory_is_refused(open_store: Opener, shared: Path):
    set_mode(shared, 0o555)
    with ordinary_user(), pytest.raises(DataDirError, match="cannot be written: make it and its directory"):
        await open_store(shared / "threadwise.db")
    with ordinary_user(), pytest.raises(DataDirError, match="cannot be written"):
        await open_store(shared / "data" / "threadwise.db")
    assert names_in(shared) == []


async def test_a_read_only_database_is_refused_and_untouched(open_store: Opener, shared: Path):
    with ordinary_user():
        await (await open_store(shared / "threadwise.db")).close()
    set_mode(shared / "threadwise.db", 0o444)
    before = precious(shared)
    with ordinary_user(), pytest.raises(DataDirError, match="cannot be written: make it and its directory"):
        await open_store(shared / "threadwise.db")
    assert precious(shared) == before


async def test_an_odd_name_is_a_name_like_any_other(open_store: Opener, tmp_path: Path):
    odd = tmp_path / "50%20 off? #1 & 'more'" / "threadwise.db"
    await ask(await open_store(odd), said("m1"))
    assert await ask(await open_store(odd), said("m1")) is None
    assert names_in(tmp_path) == [odd.parent.name]


async def limit_pages(store: SqlConversationStore, more: int) -> None:
    """The disk takes only so many pages more."""
    async with store.database.write() as session:
        pages = await session.scalar(text("PRAGMA page_count"))
        await session.execute(text(f"PRAGMA max_page_count = {pages + more}"))


async def test_a_full_disk_is_told_costs_no_row_and_is_over_when_there_is_room(store: SqlConversationStore, path: Path):
    """M4, F19."""
    await fill(store, 5)
    open_turn = await ask(store, said("open"))
    assert open_turn is not None
    await limit_pages(store, 2)
    outcomes = await asyncio.gather(
        *(ask(store, said(f"more{n}", "word " * 300)) for n in range(20)), return_exceptions=True
    )
    stored = len([outcome for outcome in outcomes if isinstance(outcome, Job)])
    assert {type(outcome) for outcome in outcomes[stored:]} == {DataDirError}
    assert re.search(r"the disk is full, .*threadwise\.db takes no more: free some", str(outcomes[-1]))
    with pytest.raises(DataDirError, match="the disk is full"):
        await finish(store, open_turn, answer("word " * 3000), TurnState.ANSWERED)
    turns = await store.turns(key())
    assert len(turns) == 6 + stored
    assert [turn.answered for turn in turns[:5]] == [f"answer {n} " * 40 for n in range(5)]
    assert turns[5].state is TurnState.ASKED
    await limit_pages(store, 1000)
    await finish(store, open_turn, answer("word " * 3000), TurnState.ANSWERED)
    assert await ask(store, said("later", "word " * 300)) is not None
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_damage_that_shows_while_running_is_told(open_store: Opener, tmp_path: Path):
    store = await open_store(await crashed(open_store, tmp_path))
    await store.database.empty_log()
    path = store.database.path
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))
    with pytest.raises(DataDirError, match="is damaged"):
        await store.turns(key())


async def test_errors_do_not_repeat_what_people_typed(store: SqlConversationStore):
    await limit_pages(store, 0)
    with pytest.raises(DataDirError) as caught:
        await ask(store, said("m1", "my secret " * 5000))
    error: BaseException | None = caught.value
    while error is not None:
        assert "secret" not in str(error)
        error = error.__cause__
