"""What an endpoint tells of itself: its models, how much fits into its context, how many calls it takes at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

BATCHING_SERVERS: Final = MappingProxyType({"vllm": 8, "sglang": 8})
"""Servers that batch whatever comes and tell no number of slots, by the owner that they give their models.

Eight answers of a chat at a time keep a GPU busy without making each of them slow.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointInfo:
    """What could be learnt; an endpoint that tells little is still a good one."""

    reachable: bool
    models: tuple[str, ...] = ()
    """Names, in the endpoint's order; empty when it does not list them."""
    context_tokens: int | None = None
    """Context of one request; `None` when the endpoint does not tell."""
    special_tokens: tuple[str, ...] = ()
    """Control tokens of the model's tokenizer, as far as the endpoint names them."""
    parallel: int | None = None
    """Calls that it answers at the same time; `None` when that cannot be told."""


def model_names(listing: object) -> tuple[str, ...]:
    """Names in a reply of GET /models."""
    return tuple(str(entry["id"]) for entry in _entries(listing) if entry.get("id"))


def context_in_models(listing: object, model: str) -> int | None:
    """Context of `model`, or of the first one, as GET /models tells it (vLLM, llama.cpp, gateways)."""
    entries = list(_entries(listing))
    entry = next((entry for entry in entries if entry.get("id") == model), entries[0] if entries else {})
    meta = entry.get("meta")
    candidates = (entry.get("max_model_len"), meta.get("n_ctx") if isinstance(meta, dict) else None)
    return next((found for value in candidates if (found := _count(value))), None)


def context_in_props(props: object) -> int | None:
    """Context of one slot, as llama.cpp tells it under GET /props."""
    settings = props.get("default_generation_settings") if isinstance(props, dict) else None
    return _count(settings.get("n_ctx")) if isinstance(settings, dict) else None


def slots_in_props(props: object) -> int | None:
    """Slots, as llama.cpp tells them under GET /props."""
    return _count(props.get("total_slots")) if isinstance(props, dict) else None


def parallel_of_server(listing: object) -> int | None:
    """How many calls a server of this kind takes at a time, its kind read from GET /models."""
    owners = [str(entry.get("owned_by", "")) for entry in _entries(listing)]
    return next((BATCHING_SERVERS[owner] for owner in owners if owner in BATCHING_SERVERS), None)


def special_tokens(*pages: object) -> tuple[str, ...]:
    """Control tokens in replies of vLLM's GET /tokenizer_info and llama.cpp's GET /props, each once."""
    found: list[str] = []
    for page in pages:
        if not isinstance(page, dict):
            continue
        found += [_content(page.get(name)) for name in ("bos_token", "eos_token", "pad_token", "unk_token")]
        extra = page.get("additional_special_tokens")
        found += [_content(token) for token in extra] if isinstance(extra, list) else []
        added = page.get("added_tokens_decoder")
        for token in added.values() if isinstance(added, dict) else ():
            if isinstance(token, dict) and token.get("special"):
                found.append(_content(token))
    return tuple(dict.fromkeys(token for token in found if token))


def _content(token: object) -> str:
    """A token is told as text, or as an object that holds it."""
    value = token.get("content") if isinstance(token, dict) else token
    return value if isinstance(value, str) else ""


def _entries(listing: object) -> Iterator[dict[str, Any]]:
    data = listing.get("data") if isinstance(listing, dict) else None
    for entry in data if isinstance(data, list) else ():
        if isinstance(entry, dict):
            yield entry


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
