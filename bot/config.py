"""Settings: the only reader of the environment.

`load` turns a plain mapping into frozen settings and names all mistakes at once, never the value of
one. A key that looks like one of ours but is none is a mistake too.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from dotenv import dotenv_values
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError

from core.errors import ConfigError

OUR_PREFIXES: Final = ("LLM_", "EMBEDDING_", "REWRITE", "RETRIEVAL_")
"""Whose they are is plain; other names are ours only if they are close to one."""
LOCAL: Final = "local"
ENDPOINT: Final = "endpoint"
"""Of `REWRITER`: the trained model on the CPU; the model that answers."""
NO_KEY: Final = "sk-no-key-required"
"""What clients send where a server wants any key at all."""


def _checked_url(value: str) -> str:
    url = value.strip().rstrip("/")
    if not url.startswith(("http://", "https://")) or len(url.split("//", 1)[1]) == 0:
        raise ValueError('must start with http:// or https://, e.g. "http://127.0.0.1:8000/v1"')
    if "@" in url.split("//", 1)[1].split("/", 1)[0]:
        raise ValueError("must not hold a user or password; set the key in its own variable")
    if url.endswith(("/chat/completions", "/embeddings")):
        raise ValueError('must end before "/chat/completions" or "/embeddings", usually in "/v1"')
    return url


Url = Annotated[str, AfterValidator(_checked_url)]


def _checked_rewriter(value: str) -> str:
    if value in ("", LOCAL, ENDPOINT):
        return value
    try:
        return _checked_url(value)
    except ValueError as error:
        raise ValueError(f'must be "{LOCAL}", "{ENDPOINT}" or a URL; a URL {error}') from error


class Settings(BaseModel):
    """All settings, as the rest of the program sees them. Each alias is the name in the environment."""

    model_config = ConfigDict(frozen=True, extra="ignore", str_strip_whitespace=True)

    data_dir: Path = Field(Path("data"), alias="DATA_DIR")
    """Everything that is kept lives here."""
    metrics_port: int | None = Field(None, alias="METRICS_PORT", ge=1, le=65535)
    """Where Prometheus finds the counters, on 127.0.0.1. Unset: nowhere."""
    bot_name: str = Field("Threadwise", alias="BOT_NAME", min_length=1, max_length=32)
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("WARNING", alias="LOG_LEVEL")

    llm_base_url: Url | None = Field(None, alias="LLM_BASE_URL")
    """OpenAI-style endpoint of the chat model, ending in /v1. Unset: the embedded model."""
    llm_model: str = Field("", alias="LLM_MODEL")
    """Empty: the first one that the endpoint lists."""
    llm_api_key: SecretStr = Field(SecretStr(NO_KEY), alias="LLM_API_KEY")
    llm_profile: Literal["gemma3", "gemma4", "base"] = Field("gemma3", alias="LLM_PROFILE")
    """How the model's chat template wants to be spoken to."""
    llm_context_tokens: int | None = Field(None, alias="LLM_CONTEXT_TOKENS", ge=1024, le=1_000_000)
    """Unset: what the endpoint says, or 4096."""
    llm_parallel: int | None = Field(None, alias="LLM_PARALLEL", ge=1, le=256)
    """Calls in flight at a time. Unset: what the endpoint says, 8 for vLLM and SGLang, else 1."""
    llm_max_tokens: int = Field(512, alias="LLM_MAX_TOKENS", ge=16, le=8192)
    """Longest answer."""
    llm_timeout_seconds: float = Field(180.0, alias="LLM_TIMEOUT_SECONDS", gt=0, le=3600)
    """Wall time of one answer."""

    embedding_base_url: Url | None = Field(None, alias="EMBEDDING_BASE_URL")
    """OpenAI-style endpoint of the embedding model. Unset: the embedded one."""
    embedding_model: str = Field("", alias="EMBEDDING_MODEL")
    embedding_api_key: SecretStr = Field(SecretStr(NO_KEY), alias="EMBEDDING_API_KEY")
    embedding_max_tokens: int = Field(512, alias="EMBEDDING_MAX_TOKENS", ge=64, le=32_768)
    """Longer texts are cut for the embedding."""

    rewrite_enabled: bool = Field(True, alias="REWRITE_ENABLED")
    rewriter: Annotated[str, AfterValidator(_checked_rewriter)] = Field("", alias="REWRITER")
    """`LOCAL`, `ENDPOINT`, or the URL of an endpoint of its own. Empty: local where it is installed."""
    rewriter_model: str = Field("", alias="REWRITER_MODEL")
    """With a URL. Empty: the first one that it lists."""
    rewriter_api_key: SecretStr = Field(SecretStr(NO_KEY), alias="REWRITER_API_KEY")
    rewriter_profile: Literal["gemma3", "gemma4", "base"] = Field("gemma3", alias="REWRITER_PROFILE")
    rewrite_timeout_seconds: float = Field(4.0, alias="REWRITE_TIMEOUT_SECONDS", gt=0, le=5)
    """After this the typed words are searched."""

    retrieval_passages: int = Field(5, alias="RETRIEVAL_PASSAGES", ge=1, le=20)
    retrieval_min_similarity: float = Field(0.2, alias="RETRIEVAL_MIN_SIMILARITY", ge=-1, le=1)
    """Cosine similarity below which nothing was found; depends on the embedding model."""


KEYS: Final = {str(field.alias): name for name, field in Settings.model_fields.items()}


def load(environment: Mapping[str, str], dotenv: Mapping[str, str | None] | None = None) -> Settings:
    """The settings in `environment`, those of a `.env` file beneath it. An empty value means unset.

    Raises `ConfigError` naming every mistake.
    """
    merged = {key: value for key, value in (dotenv or {}).items() if value} | {
        key: value for key, value in environment.items() if value.strip()
    }
    mistakes = [_unknown(key) for key in sorted(merged) if key not in KEYS and _looks_like_ours(key)]
    try:
        settings = Settings.model_validate({key: merged[key] for key in KEYS if key in merged})
    except ValidationError as error:
        mistakes += [_mistake(str(detail["loc"][0]), detail["msg"]) for detail in error.errors(include_input=False)]
    if not mistakes and settings.embedding_base_url and not settings.embedding_model:
        mistakes.append("EMBEDDING_MODEL must be set with EMBEDDING_BASE_URL: the index is kept for one model")
    if mistakes:
        many = f"{len(mistakes)} settings are wrong" if len(mistakes) > 1 else "A setting is wrong"
        raise ConfigError(f"{many}: {'; '.join(mistakes)}. See .env.example for all settings.")
    return settings


def from_environment() -> Settings:
    """The settings of this process, with those of `.env` in the working directory beneath them."""
    path = Path(".env")
    try:
        dotenv = dotenv_values(path) if path.is_file() else {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {type(error).__name__}. Fix or remove it.") from error
    return load(os.environ, dotenv)


def _looks_like_ours(key: str) -> bool:
    return key.startswith(OUR_PREFIXES) or bool(difflib.get_close_matches(key, KEYS, n=1, cutoff=0.8))


def _unknown(key: str) -> str:
    close = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.6)
    return f"{key} is not a setting" + (f" (did you mean {close[0]}?)" if close else "")


def _mistake(key: str, message: str) -> str:
    return f"{key} {message.removeprefix('Value error, ').replace('Input ', '').rstrip('.')}"
