"""The process dies; what it said was stored is stored."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from adapters.ports import TurnState
from tests.store.builders import ask, key, said
from tests.store.conftest import Opener

ROOT = Path(__file__).parents[2]


def busy_writer(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.store.busy_writer", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def kill_while_writing(path: Path, start: int) -> list[str]:
    """The lines that were out before the kill."""
    with busy_writer(path, start) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(random.uniform(0, 0.15))
        process.kill()
        lines = [first, *process.stdout]
    assert process.returncode == -signal.SIGKILL
    return [line.strip() for line in lines if line.endswith("\n")]


async def test_rows_that_were_committed_survive_a_kill(open_store: Opener, path: Path):
    """M3, at random moments; the log of the killed writer is found by the next start."""
    asked: set[str] = set()
    answered: set[str] = set()
    for turn in range(3):
        lines = kill_while_writing(path, turn * 100_000)
        asked |= {line.split()[1] for line in lines if line.startswith("asked")}
        answered |= {line.split()[1] for line in lines if line.startswith("answered")}
        assert path.with_name("threadwise.db-wal").stat().st_size > 0, "nothing was left to recover"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    store = await open_store()
    left = len(await store.abandon("terminal"))
    turns = await store.turns(key())
    assert asked <= {turn.message_id for turn in turns}
    assert answered <= {turn.message_id for turn in turns if turn.state is TurnState.ANSWERED}
    assert left == len([turn for turn in turns if turn.state is TurnState.FAILED]) <= 3
    assert [turn.seq for turn in turns] == list(range(1, len(turns) + 1))
    assert await ask(store, said("m0")) is None


async def test_a_process_that_does_not_close_the_store_ends_all_the_same(made: Path, open_store: Opener):
    """The driver has a thread for each connection."""
    with busy_writer(made, 0, 2) as process:
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
        assert process.wait(timeout=10) == 0
    assert len(await (await open_store()).turns(key())) == 2
    assert lines[-1] == "alembic: not imported", "a start without a migration must not wait for Alembic"
