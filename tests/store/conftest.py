"""A real SQLite file for every test, and every store that a test opens is closed after it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from adapters.store import SqlConversationStore
from adapters.store.files import prepare

Opener = Callable[..., Awaitable[SqlConversationStore]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "threadwise.db"


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database of this version: copying it is quicker than migrating each time."""
    return prepare(tmp_path_factory.mktemp("template") / "threadwise.db", 5.0)


@pytest.fixture
def made(path: Path, template: Path) -> Path:
    """`path`, with a database there."""
    path.parent.mkdir(mode=0o700)
    shutil.copy(template, path)
    return path


@pytest.fixture
async def open_store(path: Path) -> AsyncIterator[Opener]:
    opened: list[SqlConversationStore] = []

    async def open_store(at: Path = path, *, busy_timeout: float = 5.0) -> SqlConversationStore:
        store = await SqlConversationStore.open(at, busy_timeout=busy_timeout)
        opened.append(store)
        return store

    yield open_store
    for store in opened:
        await store.close()


@pytest.fixture
async def store(made: Path, open_store: Opener) -> SqlConversationStore:
    return await open_store()
