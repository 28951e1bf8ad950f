from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import update

from adapters.ports import Memory
from adapters.store import SqlConversationStore
from adapters.store.models import ThreadRow
from tests.store.builders import key, said
from tests.store.conftest import Opener
from tests.store.contract import AnyStore, ConversationStoreContract, Reopen


class TestSqlConversationStore(ConversationStoreContract):
    @pytest.fixture
    def reopen(self, made: Path, open_store: Opener) -> Reopen:
        before: list[SqlConversationStore] = []

        async def reopen() -> AnyStore:
            if before:
                await before[-1].close()
            before.append(await open_store())
            return before[-1]

        return reopen

    async def test_history_brings_the_summary_of_its_thread(self, made: Path, open_store: Opener):
        store = await open_store()
        await store.ask(said("m1"))
        async with store.database.write() as session:
            await session.execute(update(ThreadRow).values(summary="They installed it."))
        assert await store.history(key(), 10**6, 8) == Memory(summary="They installed it.")
