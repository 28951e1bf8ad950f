"""What is the same behind every place: dispatcher, store, model client; the model is a scripted endpoint."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from adapters.dispatcher import Dispatcher
from adapters.jobs import Admitted
from adapters.ports import Inbound, StoredTurn, ThreadKey
from adapters.store import SqlConversationStore
from adapters.summaries import Summaries
from bot.wiring import in_line
from core.gpu import Gpu
from core.llm import HttpChatModel
from core.pipeline import Pipeline
from core.prompts import GEMMA3
from core.window import MAX_TURNS
from tests.dialogues.conftest import QUICK
from tests.discord_server.gateway import until
from tests.fakes import HERON, KESTREL, LEAVE, ScriptedRetriever
from tests.servers.openai import OpenAIServer
from tests.servers.replies import Reply

_NONCE: Final = re.compile(r"(?<=>>> )[a-z]{8}$", re.MULTILINE)


class _Counting(Dispatcher):
    """Knows how many questions it has taken."""

    taken = 0

    async def admit(self, inbound: Inbound) -> Admitted | None:
        admitted = await super().admit(inbound)
        self.taken += admitted is not None
        return admitted


class Desk:
    """See the module."""

    def __init__(self, store: SqlConversationStore, endpoint: OpenAIServer) -> None:
        self.store, self.endpoint = store, endpoint
        self.answers: deque[Reply] = deque()
        self.rewrites: deque[Reply] = deque()
        endpoint.default = self._reply
        self.retriever = ScriptedRetriever(KESTREL, HERON, LEAVE)
        self.model = HttpChatModel(endpoint.base_url, model=endpoint.model)
        pipeline = Pipeline(model=self.model, retriever=self.retriever, manners=GEMMA3, names=("Quill",))
        self.summaries = Summaries(store, pipeline.summarize)
        self.dispatcher = _Counting(store, in_line(pipeline), Gpu(16), MAX_TURNS, self.summaries, rules=QUICK)

    def will(self, *answers: str | Reply, rewrite: str | Reply = "") -> None:
        """What the model says next: answers, and the rewrite of a follow-up."""
        self.answers.extend(map(_as_reply, answers))
        if rewrite:
            self.rewrites.append(_as_reply(rewrite))

    @property
    def prompts(self) -> list[str]:
        """What the model was told to answer, each time, without what is drawn by lot."""
        bodies = [body for body in self.endpoint.chats if not _is_rewrite(body)]
        return [_NONCE.sub("", "\n".join(f"{m['role']}: {m['content']}" for m in body["messages"])) for body in bodies]

    @property
    def rewritten(self) -> int:
        """How many rewrites were asked for."""
        return sum(map(_is_rewrite, self.endpoint.chats))

    async def turns(self, platform: str) -> list[StoredTurn]:
        """Of the newest conversation on a platform."""
        threads = await self.store.threads(platform, 1)
        return await self.store.turns(threads[0].key) if threads else []

    async def thread(self, platform: str) -> ThreadKey:
        return (await self.store.threads(platform, 1))[0].key

    async def answered(self, taken: int) -> None:
        """Until that many questions were taken, and all that were are done."""
        await until(lambda: self.dispatcher.taken >= taken and not self.dispatcher._tickets, 20)

    def _reply(self, body: dict[str, Any]) -> Reply:
        return (self.rewrites if _is_rewrite(body) else self.answers).popleft()


def _as_reply(said: str | Reply) -> Reply:
    return Reply(pieces=(said,)) if isinstance(said, str) else said


def _is_rewrite(body: dict[str, Any]) -> bool:
    return "You turn the last message of a conversation into one query" in str(body["messages"][0]["content"])


@asynccontextmanager
async def desk_at(path: Path) -> AsyncIterator[Desk]:
    """Platforms are attached before the dispatcher is started, by whoever uses it."""
    store = await SqlConversationStore.open(path)
    async with OpenAIServer(context_tokens=32_768) as endpoint:
        desk = Desk(store, endpoint)
        try:
            yield desk
        finally:
            await desk.dispatcher.close(0)
            await desk.summaries.close()
            await desk.model.aclose()
            await store.close()
