"""The systems that are compared, each in a process of its own: a turn a line, its processor time in return.

    python -m bench.peers.systems SYSTEM MODEL URL [URL of the rewriter]

reads numbers of turns and writes for each the processor seconds that it took, of all threads, once all is done that
belongs to it. Each is set up as its documentation shows, with the passages of the script for whatever is searched.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from adapters.dispatcher import Dispatcher
from adapters.store import SqlConversationStore
from adapters.summaries import Summaries
from bench.asking import Unseen, answered, inbound
from bench.peers.conversation import Exchange, conversation
from bot.wiring import in_line
from core.deadlines import Deadlines
from core.gpu import Gpu
from core.llm import HttpChatModel
from core.load import in_background
from core.pipeline import Limits, Pipeline, Rewriter
from core.prompts import GEMMA3, TRAINED
from core.types import Answer, Hits, Question, Turn
from core.window import MAX_TURNS, leaving

Ask = Callable[[Exchange], Awaitable[str]]
"""Says the question of a turn; its answer, when all is done that belongs to it."""

CONTEXT_TOKENS: Final = 8192
ANSWER_TOKENS: Final = 1024
KEY: Final = "none"
PATIENCE: Final = 120.0
"""Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The model that answers, and, if not the same, the one that rewrites for Threadwise."""

    model: str
    url: str
    rewriter_url: str = ""


class Searched:
    """What is found for any query: the passages of the turn."""

    def __init__(self) -> None:
        self.exchange = conversation()[0]


def _pipeline(served: Served, searched: Searched, stack: AsyncExitStack) -> Pipeline:
    """Threadwise's stages, rewrites by the rewriter of its own where there is one."""

    class Retriever:
        async def search(self, text: str, scope: frozenset[str], limit: int) -> Hits:
            return Hits(dense=searched.exchange.passages, keyword=searched.exchange.passages)

    def chat(url: str) -> HttpChatModel:
        # No deadline: on a processor a long prompt takes longer than a GPU may, and a rewrite left out is no measure.
        patient = Deadlines(first_token=PATIENCE, gap=PATIENCE, wall=PATIENCE)
        deadlines_for = dict.fromkeys(("rewrite", "summarize"), patient)
        model = HttpChatModel(url, model=served.model, deadlines=patient, deadlines_for=deadlines_for)
        stack.push_async_callback(model.aclose)
        return model

    return Pipeline(
        model=chat(served.url),
        retriever=Retriever(),
        manners=GEMMA3,
        rewriter=Rewriter(manners=TRAINED, model=chat(served.rewriter_url)) if served.rewriter_url else None,
        limits=Limits(
            context_tokens=CONTEXT_TOKENS,
            answer_tokens=ANSWER_TOKENS,
            rewrite_seconds=PATIENCE,
            summarize_seconds=PATIENCE,
        ),
    )


@asynccontextmanager
async def threadwise(served: Served, searched: Searched) -> AsyncIterator[Ask]:
    """The whole bot but its search: admission, SQLite, queue, pipeline, delivery, and the summary after the turn."""
    async with AsyncExitStack() as stack:
        pipeline, gpu = _pipeline(served, searched, stack), Gpu(1)
        directory = stack.enter_context(TemporaryDirectory(prefix="threadwise-peers-"))
        store = await SqlConversationStore.open(Path(directory) / "conversations.db")
        stack.push_async_callback(store.close)
        summaries = Summaries(store, in_background(pipeline, gpu.background()).summarize)
        stack.push_async_callback(summaries.close)
        dispatcher = Dispatcher(store, in_line(pipeline), gpu, MAX_TURNS, summaries)
        stack.push_async_callback(dispatcher.close)
        dispatcher.attach(channel := Unseen())

        async def ask(exchange: Exchange) -> str:
            answer = await answered(dispatcher, channel, inbound("t", exchange.question))
            await summaries.idle()
            return _sound(answer).text

        yield ask


@asynccontextmanager
async def core(served: Served, searched: Searched) -> AsyncIterator[Ask]:
    """Threadwise's core as the library that the others are: the conversation is a list in memory."""
    async with AsyncExitStack() as stack:
        pipeline = _pipeline(served, searched, stack)
        history: list[Turn] = []
        summary = ""

        async def ask(exchange: Exchange) -> str:
            nonlocal summary
            question = Question(text=exchange.question, history=tuple(history), summary=summary)
            answer = _sound(await pipeline.answer(question, _unseen))
            history.append(Turn(question=exchange.question, answer=answer.text))
            if (gone := leaving(len(history))) and (notes := await pipeline.summarize(summary, history[:gone])):
                summary = notes
                del history[:gone]
            return answer.text

        yield ask


async def _unseen(text: str) -> None:
    """Nobody looks."""


def _sound(answer: Answer) -> Answer:
    """A turn that fell back somewhere would be measured without its work."""
    if answer.degraded:
        raise RuntimeError(f"a scripted turn did not go as planned: {answer.degraded}")
    return answer


@asynccontextmanager
async def langchain(served: Served, searched: Searched) -> AsyncIterator[Ask]:
    """The history-aware retriever before a chain that stuffs what it found into the prompt."""
    from langchain_classic.chains import create_history_aware_retriever, create_retrieval_chain
    from langchain_classic.chains.combine_documents import create_stuff_documents_chain
    from langchain_core.documents import Document
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
    from langchain_core.retrievers import BaseRetriever
    from langchain_openai import ChatOpenAI

    class Retriever(BaseRetriever):  # type: ignore[misc] # untyped where LangChain is not installed
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            return [Document(page_content=passage.text) for passage in searched.exchange.passages]

        async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            return self._get_relevant_documents(query, run_manager=run_manager)

    def prompt(instructions: str) -> Any:
        history = MessagesPlaceholder("chat_history")
        return ChatPromptTemplate.from_messages([("system", instructions), history, ("human", "{input}")])

    llm = ChatOpenAI(base_url=served.url, api_key=KEY, model=served.model, temperature=0, stream_usage=True)
    condense = prompt(
        "Given a chat history and the latest user question, which might refer to it, write a standalone question that "
        "can be understood without the chat history. Do not answer it; reword it if needed, else return it as it is."
    )
    answer = prompt(
        "You answer questions. Use the following pieces of retrieved context. If you do not know the answer, say so. "
        "Use three sentences at most.\n\n{context}"
    )
    chain = create_retrieval_chain(
        create_history_aware_retriever(llm, Retriever(), condense), create_stuff_documents_chain(llm, answer)
    )
    history: list[Any] = []

    async def ask(exchange: Exchange) -> str:
        text = ""
        async for part in chain.astream({"input": exchange.question, "chat_history": history}):
            text += part.get("answer", "")
        history.extend([HumanMessage(exchange.question), AIMessage(text)])
        return text

    yield ask


@asynccontextmanager
async def llamaindex(served: Served, searched: Searched) -> AsyncIterator[Ask]:
    """The chat engine that condenses the question and puts the context into its prompt, all as by default."""
    from llama_index.core.chat_engine import CondensePlusContextChatEngine
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode
    from llama_index.llms.openai_like import OpenAILike

    class Retriever(BaseRetriever):  # type: ignore[misc] # untyped where LlamaIndex is not installed
        def _retrieve(self, query_bundle: Any) -> list[Any]:
            return [NodeWithScore(node=TextNode(text=p.text), score=p.score) for p in searched.exchange.passages]

        async def _aretrieve(self, query_bundle: Any) -> list[Any]:
            return self._retrieve(query_bundle)

    llm = OpenAILike(
        api_base=served.url,
        api_key=KEY,
        model=served.model,
        temperature=0,
        is_chat_model=True,
        context_window=CONTEXT_TOKENS,
        max_tokens=ANSWER_TOKENS,
    )
    engine = CondensePlusContextChatEngine.from_defaults(retriever=Retriever(), llm=llm)

    async def ask(exchange: Exchange) -> str:
        response = await engine.astream_chat(exchange.question)
        text = ""
        async for piece in response.async_response_gen():
            text += piece
        return text

    yield ask


SYSTEMS: Final[dict[str, Callable[[Served, Searched], AbstractAsyncContextManager[Ask]]]] = {
    "threadwise": threadwise,
    "core": core,
    "langchain": langchain,
    "llamaindex": llamaindex,
}


async def _serve(name: str, model: str, url: str, rewriter_url: str = "") -> None:
    searched = Searched()
    async with SYSTEMS[name](Served(model=model, url=url, rewriter_url=rewriter_url), searched) as ask:
        while line := await asyncio.to_thread(sys.stdin.readline):
            searched.exchange = conversation()[int(line)]
            before = time.process_time()
            text = await ask(searched.exchange)
            seconds = time.process_time() - before
            if text != searched.exchange.answer:
                raise RuntimeError(f"another answer than the script's: {text[:80]!r}")
            sys.stdout.write(f"{seconds}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
