"""Which class stands behind which port; opens and closes everything, in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import httpx

from adapters.dispatcher import Dispatcher
from adapters.memories import Memories
from adapters.ports import AnswerTurn, Scope, Show, ThreadKey, public
from adapters.rules import Rules
from adapters.store import SqlConversationStore
from adapters.store.installations import Installed
from adapters.summaries import Summaries
from bot.config import ENDPOINT, LOCAL, Room, Settings
from bot.engine import EMBEDDING_TOKENS, Endpoint, Engine, missing_packages
from bot.engine import start as start_engine
from core import certificate
from core.counting import Counts
from core.endpoint import EndpointInfo
from core.errors import EmbedderError, EngineError, ModelError, ModelRejected, ModelTimeout, ThreadwiseError
from core.gpu import Gpu, QueueLimits
from core.index.embedder import HttpEmbedder
from core.index.health import check, rebuild
from core.index.index import Index, open_index
from core.index.lock import lock_data_dir
from core.index.search import outdated
from core.index.upkeep import embedder_width
from core.llm import Deadlines, HttpChatModel
from core.llm_place import LLM, REWRITER, Named
from core.load import in_background, on_seat
from core.pipeline import Limits, Pipeline, Rewriter
from core.prompts import BASE, PROFILES, TRAINED, Manners
from core.retrieve import Threshold, Weights
from core.sanitize import has_control_token
from core.seat import JobLine
from core.tokenizer import HttpTokenizer
from core.turnstile import Turnstile
from core.types import Answer, Question
from core.window import MAX_TURNS

log = logging.getLogger(__name__)

DATABASE: Final = "conversations.db"
DEFAULT_CONTEXT_TOKENS: Final = 4096
CHECK_SECONDS: Final = 3600.0
"""Between two checks of the vectors."""
DEFAULT_PARALLEL: Final = 1
"""Ollama answers one call at a time unless it is told otherwise, and does not say so; of others nothing is known."""
AT_A_TERMINAL: Final = QueueLimits(outage_seconds=2.0), Rules(store_patience=5.0, grace=0.0)
"""Whoever looks at a cursor would rather have the passages than an answer when the model is back, and would not wait
for a disk that is full."""
IN_THREADS: Final = QueueLimits(), Rules()
"""On a chat platform a question waits, and says so."""
PROBE_TEXT: Final = "Can you read this?"
PROBE_SECONDS: Final = 10.0

# A weak rewriter needs the typed words beside its query, a good one hardly does. Measured by `threadwise eval`.
WEIGHTS_OF_BASE: Final = Weights(typed=1.0, rewritten=1.0)
WEIGHTS_OF_TRAINED: Final = Weights(typed=0.3, rewritten=1.0)
WEIGHTS_OF_ENDPOINT: Final = Weights(typed=0.5, rewritten=1.3)

# The embedded model reads about 300 tokens a second: little context, short answers.
EMBEDDED_PASSAGES: Final = 3
EMBEDDED_ANSWER_TOKENS: Final = 160

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """An open Threadwise."""

    store: SqlConversationStore
    index: Index
    pipeline: Pipeline
    gpu: Gpu
    dispatcher: Dispatcher
    embedded: bool
    """Whether the chat model is the embedded demonstration."""
    about: str
    """The model, in one line."""


@asynccontextmanager
async def open_index_only(settings: Settings, tell: Tell) -> AsyncIterator[Index]:
    """The index with its embedder, for `threadwise ingest`."""
    async with AsyncExitStack() as stack:
        stack.enter_context(lock_data_dir(settings.data_dir))
        engine = await _engine(settings, stack, tell, chat=False)
        yield await _index(settings, engine, stack, settings.data_dir)


@asynccontextmanager
async def open_app(
    settings: Settings,
    tell: Tell,
    running: Engine | None = None,
    waits: tuple[QueueLimits, Rules] = AT_A_TERMINAL,
) -> AsyncIterator[App]:
    """Everything a channel needs; with the embedded models of `running`, if that is given, which stays open.

    The dispatcher is not started: channels are attached first. It is closed at the end, after its grace.

    Raises `ThreadwiseError` with one line on what is wrong.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(lock_data_dir(settings.data_dir))
        store = await SqlConversationStore.open(settings.data_dir / DATABASE)
        stack.push_async_callback(store.close)
        engine = running or await _engine(settings, stack, tell, chat=_needs_gemma(settings))
        index = await _index(settings, engine, stack, settings.data_dir)
        pipeline, slots = await _pipeline(settings, engine, index, stack)
        limits, rules = waits
        gpu = Gpu(slots, limits=limits)
        calls = f"{slots} call{'s' if slots > 1 else ''} at a time"
        context = f"{pipeline.limits.context_tokens} tokens of context, {calls}"
        summaries = Summaries(store, in_background(pipeline, gpu.background()).summarize)
        stack.push_async_callback(summaries.close)
        watch = asyncio.create_task(_keep_sound(index))
        stack.push_async_callback(_cancelled, watch)
        memories = _memories(settings, store, index, in_background(pipeline, gpu.background()))
        if memories is not None:
            stack.push_async_callback(memories.close)
        dispatcher = Dispatcher(
            store,
            in_line(pipeline),
            gpu,
            MAX_TURNS,
            summaries,
            rules=rules,
            scope=scope_by(settings.channel_scopes),
            memories=memories,
        )
        stack.push_async_callback(dispatcher.close)
        yield App(
            store=store,
            index=index,
            pipeline=pipeline,
            gpu=gpu,
            dispatcher=dispatcher,
            embedded=settings.llm_base_url is None,
            about=f"Model: {pipeline.model}, {context}.",
        )


async def slack_installations(settings: Settings) -> list[Installed]:
    """Where the Slack app of the settings is installed, by the database. Raises `DataDirError`."""
    if not settings.slack_client_id or not (settings.data_dir / DATABASE).exists():
        return []
    with lock_data_dir(settings.data_dir):
        store = await SqlConversationStore.open(settings.data_dir / DATABASE)
        try:
            return await store.installations.all(settings.slack_client_id)
        finally:
            await store.close()


def _memories(settings: Settings, store: SqlConversationStore, index: Index, pipeline: Pipeline) -> Memories | None:
    """What picks facts out of what people say; None if it is switched off."""
    if not settings.memory_enabled:
        return None
    if pipeline.manners.flat:
        log.warning("MEMORY_ENABLED does nothing with a base model, the embedded one among them: set LLM_BASE_URL.")
        return None
    return Memories(store.facts, pipeline.remember, index.embedder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """An index of its own and the pipeline over it, for measuring."""

    index: Index
    pipeline: Pipeline


@asynccontextmanager
async def open_bench(settings: Settings, directory: Path, tell: Tell) -> AsyncIterator[Bench]:
    """The pipeline over an index in `directory`; `DATA_DIR` itself may be in use meanwhile."""
    async with AsyncExitStack() as stack:
        stack.enter_context(lock_data_dir(directory))
        engine = await _engine(settings, stack, tell, chat=_needs_gemma(settings))
        index = await _index(settings, engine, stack, directory)
        pipeline, _slots = await _pipeline(settings, engine, index, stack)
        yield Bench(index=index, pipeline=pipeline)


def scope_by(channels: Mapping[Room, frozenset[str]]) -> Scope:
    """What is read in a channel: what everybody may see, and the scopes that it is listed with."""

    def scope(thread: ThreadKey) -> frozenset[str]:
        workspace = "" if thread.platform == "discord" else thread.workspace
        return public(thread) | channels.get(Room(thread.platform, workspace, thread.channel), frozenset())

    return scope


def in_line(pipeline: Pipeline) -> AnswerTurn:
    """`pipeline`, each turn of which waits on its seat for the model."""

    async def answer(question: Question, show: Show, seat: JobLine) -> Answer:
        return await on_seat(pipeline, seat).answer(question, show)

    return answer


async def ask_about_model(settings: Settings) -> EndpointInfo:
    """What the endpoint of `LLM_BASE_URL` tells of itself. Raises `ModelError` if it cannot be used."""
    async with AsyncExitStack() as stack:
        key = settings.llm_api_key.get_secret_value()
        model = _model(settings, Endpoint(settings.llm_base_url or "", key, settings.llm_model), stack)
        return await _ask_endpoint(model, settings.llm_model)


def _needs_gemma(settings: Settings) -> bool:
    """Whether the embedded chat model answers or rewrites."""
    return settings.llm_base_url is None or (settings.rewrite_enabled and rewriter_of(settings) == LOCAL)


def rewriter_of(settings: Settings) -> str:
    """What `REWRITER` comes to: `LOCAL`, `ENDPOINT` or a URL."""
    if settings.rewriter:
        return settings.rewriter
    return ENDPOINT if missing_packages(chat=True, embeddings=False) else LOCAL


async def _engine(settings: Settings, stack: AsyncExitStack, tell: Tell, *, chat: bool) -> Engine | None:
    """The embedded models that the settings leave to us; None if there is none."""
    embeddings = settings.embedding_base_url is None
    if not chat and not embeddings:
        return None
    try:
        engine = await start_engine(settings.data_dir, chat=chat, embeddings=embeddings, on_step=tell)
    except EngineError as error:
        if not chat or settings.llm_base_url is None or settings.rewriter:
            raise
        log.warning("The model that answers rewrites as well, since the one for it cannot be used: %s", error)
        return await _engine(settings, stack, tell, chat=False)
    stack.push_async_callback(engine.close)
    return engine


async def _index(settings: Settings, engine: Engine | None, stack: AsyncExitStack, data_dir: Path) -> Index:
    endpoint = engine.embeddings if engine else None
    limit = EMBEDDING_TOKENS if endpoint else settings.embedding_max_tokens
    if endpoint is None:
        assert settings.embedding_base_url is not None
        key = settings.embedding_api_key.get_secret_value()
        endpoint = Endpoint(settings.embedding_base_url, key, settings.embedding_model)
    # llama.cpp leaves Hangul syllables whole, which this model's own tokenizer takes apart.
    normal_form: Literal["", "NFD"] = "NFD" if engine and engine.embeddings else ""
    client = await stack.enter_async_context(httpx.AsyncClient(verify=certificate.context(), trust_env=False))
    embedder = HttpEmbedder(
        client, endpoint.base_url, endpoint.model, api_key=endpoint.api_key, max_tokens=limit, normal_form=normal_form
    )
    if settings.embedding_base_url is not None:
        await embedder.embed([PROBE_TEXT], seconds=PROBE_SECONDS)
    index = await open_index(data_dir, embedder)
    stack.push_async_callback(index.close)
    index.warm_up()
    return index


async def _pipeline(
    settings: Settings, engine: Engine | None, index: Index, stack: AsyncExitStack
) -> tuple[Pipeline, int]:
    """The stages, and how many calls their model answers at a time."""
    embedded = engine.chat if engine and settings.llm_base_url is None else None
    if embedded and rewriter_of(settings) != LOCAL:
        embedded = embedded.without("rewrite")
    key = settings.llm_api_key.get_secret_value()
    endpoint = embedded or Endpoint(settings.llm_base_url or "", key, settings.llm_model)
    model = _model(settings, endpoint, stack)
    if engine and embedded:
        told = EndpointInfo(reachable=True, context_tokens=engine.context_tokens, parallel=engine.slots)
    else:
        told = await _ask_endpoint(model, settings.llm_model)
    context = settings.llm_context_tokens or told.context_tokens or DEFAULT_CONTEXT_TOKENS
    manners: Manners = TRAINED if embedded else PROFILES[settings.llm_profile]
    rewriter = _rewriter(settings, engine, stack) if settings.rewrite_enabled else None
    name = endpoint.model or next(iter(told.models), "")
    tokenizer = HttpTokenizer(endpoint.base_url, endpoint.api_key, model=name, special_tokens=told.special_tokens)
    stack.push_async_callback(tokenizer.aclose)
    pipeline = Pipeline(
        model=model,
        retriever=index.retriever,
        manners=manners,
        rewriter=rewriter,
        limits=Limits(
            rewrite_seconds=settings.rewrite_timeout_seconds,
            passages=min(settings.retrieval_passages, EMBEDDED_PASSAGES) if embedded else settings.retrieval_passages,
            context_tokens=context,
            answer_tokens=EMBEDDED_ANSWER_TOKENS if embedded else settings.llm_max_tokens,
        ),
        weights=_weights(rewriter.manners if rewriter else manners),
        threshold=Threshold(similarity=settings.retrieval_min_similarity),
        names=(settings.bot_name,),
        rewriting=settings.rewrite_enabled,
        gate=settings.rewrite_gate,
        counts=Counts(tokenizer),
    )
    return pipeline, settings.llm_parallel or told.parallel or DEFAULT_PARALLEL


def _rewriter(settings: Settings, engine: Engine | None, stack: AsyncExitStack) -> Rewriter | None:
    """Who rewrites, if that is not the model that answers in its own manners."""
    chosen = rewriter_of(settings)
    if settings.llm_base_url is None and chosen in (LOCAL, ENDPOINT):
        return Rewriter(manners=TRAINED if chosen == LOCAL else BASE)
    if chosen == LOCAL and engine and engine.chat:
        return Rewriter(manners=TRAINED, model=Turnstile(_model(settings, engine.chat, stack), engine.slots))
    if chosen in (LOCAL, ENDPOINT):
        return None  # A local one that cannot be started, and that nobody had asked for, is no reason not to start.
    endpoint = Endpoint(chosen, settings.rewriter_api_key.get_secret_value(), settings.rewriter_model)
    model = _model(settings, endpoint, stack, REWRITER)
    return Rewriter(manners=PROFILES[settings.rewriter_profile], model=model)


def _model(settings: Settings, endpoint: Endpoint, stack: AsyncExitStack, named: Named = LLM) -> HttpChatModel:
    model = HttpChatModel(
        endpoint.base_url,
        api_key=endpoint.api_key,
        model=endpoint.model,
        deadlines=Deadlines(wall=settings.llm_timeout_seconds),
        deadlines_for={
            "rewrite": Deadlines(wall=settings.rewrite_timeout_seconds),
            "summarize": Deadlines(wall=Limits().summarize_seconds),
            "remember": Deadlines(wall=Limits().remember_seconds),
        },
        extra_body=endpoint.fields_for,
        named=named,
    )
    stack.push_async_callback(model.aclose)
    return model


def _weights(manners: Manners) -> Weights:
    if manners.trained:
        return WEIGHTS_OF_TRAINED
    return WEIGHTS_OF_BASE if manners.flat else WEIGHTS_OF_ENDPOINT


async def _ask_endpoint(model: HttpChatModel, wanted: str) -> EndpointInfo:
    """What the endpoint tells of itself. Raises `ModelError` if it cannot be used."""
    try:
        info = await model.describe()
    except ModelTimeout as error:
        raise ModelTimeout(f"{error} Check LLM_BASE_URL, or wait until the model is loaded.") from error
    if wanted and info.models and not any(name == wanted or name.startswith(f"{wanted}:") for name in info.models):
        listed = ", ".join(info.models[:5])
        raise ModelRejected(f"The endpoint does not serve the model of LLM_MODEL; it lists: {listed}. Set LLM_MODEL.")
    if not info.models:
        raise ModelError(f"{model.where} lists no model: load one, or check LLM_BASE_URL, which usually ends in /v1.")
    if uncovered := [token for token in info.special_tokens if not has_control_token(token)]:
        log.warning("Control tokens of the model that the sanitizer does not break: %s", " ".join(uncovered[:20]))
    return info


async def _keep_sound(index: Index) -> None:
    """At the start and every hour: vectors that got lost or damaged are made again from the text."""
    while True:
        try:
            await mend(index)
        except ThreadwiseError as error:
            log.warning("The index could not be checked: %s", error)
        await asyncio.sleep(CHECK_SECONDS)


async def mend(index: Index) -> None:
    """Checks the vectors and makes them again where they are not all there. Raises `ThreadwiseError`."""
    health = await check(index)
    if not health.ok:
        log.warning("%s They are made again now; until then the search is by words only.", health)
        await rebuild(index, health)


async def outdated_index(index: Index) -> str:
    """What to tell the operator of an index that another embedding model made; empty if there is nothing to tell."""
    state = await index.catalog.state()
    if not state.total:
        return ""
    if state.model != index.embedder.model:
        return str(outdated(state, index.embedder.model))
    try:
        width = await embedder_width(index)
    except EmbedderError as error:
        log.warning("Not known whether the index fits the embedding model: %s", error)
        return ""
    return "" if width == state.width else str(outdated(state, index.embedder.model, width))


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
