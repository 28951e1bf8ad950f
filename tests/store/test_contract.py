from __future__ import annotations

from pathlib import Path

import pytest

from adapters.store import SqlConversationStore
from tests.store.conftest import Opener
from tests.store.contract import ConversationStoreContract, Reopen
from tests.store.summary_contract import SummaryStoreContract


class TestSqlConversationStore(ConversationStoreContract, SummaryStoreContract):
    @pytest.fixture
    def reopen(self, made: Path, open_store: Opener) -> Reopen:
        before: list[SqlConversationStore] = []

        async def reopen() -> SqlConversationStore:
            if before:
                await before[-1].close()
            before.append(await open_store())
            return before[-1]

        return reopen
