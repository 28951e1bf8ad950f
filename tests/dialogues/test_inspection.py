"""What `/rewrite` tells is said in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from adapters.inspection import rewrite_lines
from adapters.store import SqlConversationStore
from core.errors import ModelError
from core.fail_open import reason_of
from core.types import QueryStatus
from tests.dialogues.conftest import Bot
from tests.fakes import KESTREL, ScriptedModel, ScriptedRetriever


def all_of(kind: type[ModelError]) -> Iterator[type[ModelError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from all_of(below)


FAILURES = [*all_of(ModelError), TimeoutError, KeyError]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.__name__)
async def test_whatever_became_of_a_rewrite_is_told_without_the_name_of_a_class(
    store: SqlConversationStore, failure: type[Exception]
):
    bot = Bot(store, ScriptedModel(generate=["Six bar. [1]"]), ScriptedRetriever(KESTREL))
    await bot.hears_at_leisure("How much pressure does the Kestrel take?")
    (turn,) = await store.turns((await store.threads("terminal", 1))[0].key)
    await bot.close()
    reason = reason_of(failure())
    *_, status = rewrite_lines(replace(turn, query_status=QueryStatus.FAILED, query_reason=reason))
    assert status.startswith("Status:       failed: the rewrite could not be made, the typed words were searched (")
    assert reason not in status
    assert len(status.split("(")[1].split()) > 2
