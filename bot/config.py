"""Settings: the only reader of the environment.

`load` turns a plain mapping into frozen settings and names all mistakes at once, never the value of
one. A key that looks like one of ours but is none is a mistake too.
"""

from __future__ import annotations

import difflib
import io
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from dotenv import dotenv_values
from dotenv.parser import parse_stream
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError

from adapters.addressing import FollowUps
from core.errors import ConfigError

OUR_PREFIXES: Final = ("LLM_", "EMBEDDING_", "REWRITE", "RETRIEVAL_", "MEMORY_", "DISCORD_", "SLACK_")
"""Whose they are is plain; other names are ours only if they are close to one."""
LOCAL: Final = "local"
ENDPOINT: Final = "endpoint"
"""Of `REWRITER`: the trained model on the CPU; the model that answers."""
SCOPE_NAME: Final = "[a-z][a-z0-9-]{0,30}"
"""Of a group of documents that not everybody may see."""
NO_KEY: Final = "sk-no-key-required"
"""What clients send where a server wants any key at all."""


def _checked_url(value: str) -> str:
    url = value.strip().rstrip("/")
    scheme, separator, rest = url.partition("://")
    if scheme.lower() not in ("http", "https") or not separator or not rest:
        raise ValueError('must start with http:// or https://, e.g. "http://127.0.0.1:8000/v1"')
    if any(char.isspace() or not char.isprintable() for char in rest):
        raise ValueError("must not hold blanks or control characters")
    if "?" in rest or "#" in rest:
        raise ValueError('must not hold "?" or "#"; set the key in its own variable')
    if "@" in rest.split("/", 1)[0]:
        raise ValueError("must not hold a user or password; set the key in its own variable")
    if url.endswith(("/chat/completions", "/embeddings")):
        raise ValueError('must end before "/chat/completions" or "/embeddings", usually in "/v1"')
    if not _can_be_called(url):
        raise ValueError("must hold a host that can be looked up, and after a colon a port from 1 to 65535")
    return f"{scheme.lower()}://{rest}"


def _can_be_called(url: str) -> bool:
    # Slow to import, and of no use without an endpoint.
    from core.exchange import http_address

    # A colon without a port is a slip that httpx passes over.
    return http_address(url) is not None and not urlsplit(url).netloc.endswith(":")


def _checked_key(value: SecretStr) -> SecretStr:
    from core.exchange import fits_header  # as above

    key = value.get_secret_value().strip()
    if not fits_header(key):
        raise ValueError("must be plain ASCII in one line: no other characters can be sent to an endpoint")
    return SecretStr(key)


def _home_expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError("begins with a home directory that is not known") from None


Url = Annotated[str, AfterValidator(_checked_url)]
Key = Annotated[SecretStr, AfterValidator(_checked_key)]
Directory = Annotated[Path, AfterValidator(_home_expanded)]
LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(lambda text: text.strip().upper())]


def _checked_rewriter(value: str) -> str:
    if (word := value.strip().casefold()) in ("", LOCAL, ENDPOINT):
        return word
    try:
        return _checked_url(value)
    except ValueError as error:
        raise ValueError(f'must be "{LOCAL}", "{ENDPOINT}" or a URL; a URL {error}') from error


def _checked_ids(value: object) -> object:
    if not isinstance(value, str):
        return value
    ids = _listed(value)
    if not all(part.isascii() and part.isdecimal() and len(part) <= 20 for part in ids):
        raise ValueError("must be ids, numbers with commas between them: switch on Developer Mode to copy an id")
    return frozenset(map(int, ids))


def _listed(value: str) -> list[str]:
    """What stands between the commas of a list."""
    ids = [part.strip() for part in value.split(",") if part.strip()]
    if value.strip() and not ids:
        # Of a template whose variables are unset: an empty list opens what a list is to close.
        raise ValueError("has commas and no id: list the ids, or leave it empty")
    return ids


def _checked_scopes(value: object) -> object:
    if not isinstance(value, str):
        return value
    scopes: dict[Room, frozenset[str]] = {}
    for part in filter(str.strip, value.split(",")):
        where, equals, names = part.partition("=")
        room, listed = _room(where.strip()), frozenset(name.strip() for name in names.split("+"))
        if not equals or room is None or not all(re.fullmatch(SCOPE_NAME, name) for name in listed):
            raise ValueError(
                'must be channel=scope: "1234=staff, 5678=staff+board" on Discord, and on Slack with the workspace, as '
                'in the address of a channel, "T024BE7LD/C024BE91L=staff"'
            )
        scopes[room] = listed
    return scopes


def _room(text: str) -> Room | None:
    if re.fullmatch(r"[0-9]{1,20}", text):
        return Room("discord", "", text)
    found = re.fullmatch(r"([TE][A-Z0-9]{1,30})/([CG][A-Z0-9]{1,30})", text)
    return Room("slack", found[1], found[2]) if found else None


def _slack_ids(form: str, advice: str) -> BeforeValidator:
    def check(value: object) -> object:
        if not isinstance(value, str):
            return value
        ids = frozenset(_listed(value))
        if not all(re.fullmatch(form, id_) for id_ in ids):
            raise ValueError(f"must be ids with commas between them: {advice}")
        return ids

    return BeforeValidator(check)


def _begins_with(prefix: str) -> Callable[[SecretStr], SecretStr]:
    def check(value: SecretStr) -> SecretStr:
        if not re.fullmatch(rf"{prefix}[\w-]+", value.get_secret_value().strip()):
            raise ValueError(f'must be a token that begins with "{prefix}"')
        return SecretStr(value.get_secret_value().strip())

    return check


def _checked_secret(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[A-Za-z0-9]{16,128}", value.get_secret_value().strip()):
        raise ValueError('must be letters and digits: copy it from "Basic Information", "App Credentials"')
    return SecretStr(value.get_secret_value().strip())


def _checked_client_id(value: str) -> str:
    if not re.fullmatch(r"(?:[0-9]{1,30}\.[0-9]{1,30})?", value):
        raise ValueError('must be two numbers with a dot between them: copy it from "Basic Information"')
    return value


def _checked_host(value: str) -> str:
    labels = value.removesuffix(".").split(".")
    if not re.fullmatch(r"[A-Za-z0-9.:-]+", value) or not all(0 < len(label) < 64 for label in labels):
        raise ValueError('must be an address or a name of this machine, e.g. "127.0.0.1" or "0.0.0.0"')
    return value


class Room(NamedTuple):
    """A channel, by the names that its platform has for it. Two workspaces may have channels of one name."""

    platform: str
    workspace: str
    """Empty on Discord, where the id of a channel is its name in all servers."""
    channel: str


Ids = Annotated[frozenset[int], BeforeValidator(_checked_ids)]
_WORKSPACE: Final = "[TE][A-Z0-9]{1,30}"
SlackTeams = Annotated[
    frozenset[str], _slack_ids(_WORKSPACE, 'of workspaces like "T024BE7LD", or of organizations, which begin with E')
]
SlackIds = Annotated[
    frozenset[str],
    _slack_ids(
        f"(?:{_WORKSPACE}/)?[A-Z][A-Z0-9]{{1,30}}",
        'like "C024BE91L", from the details on Slack, or with the workspace, "T024BE7LD/C024BE91L"',
    ),
]
"""Of channels or people, in all workspaces or in one."""


class Settings(BaseModel):
    """All settings, as the rest of the program sees them. Each alias is the name in the environment."""

    model_config = ConfigDict(frozen=True, extra="ignore", str_strip_whitespace=True)

    data_dir: Directory = Field(Path("data"), alias="DATA_DIR")
    """Everything that is kept lives here."""
    metrics_port: int | None = Field(None, alias="METRICS_PORT", ge=1, le=65535)
    """Where Prometheus finds the counters, on 127.0.0.1. Unset: nowhere."""
    bot_name: str = Field("Threadwise", alias="BOT_NAME", min_length=1, max_length=32)
    log_level: LogLevel = Field("WARNING", alias="LOG_LEVEL")

    llm_base_url: Url | None = Field(None, alias="LLM_BASE_URL")
    """OpenAI-style endpoint of the chat model, ending in /v1. Unset: the embedded model."""
    llm_model: str = Field("", alias="LLM_MODEL")
    """Empty: the first one that the endpoint lists."""
    llm_api_key: Key = Field(SecretStr(NO_KEY), alias="LLM_API_KEY")
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
    embedding_api_key: Key = Field(SecretStr(NO_KEY), alias="EMBEDDING_API_KEY")
    embedding_max_tokens: int = Field(512, alias="EMBEDDING_MAX_TOKENS", ge=64, le=32_768)
    """Longer texts are cut for the embedding."""

    rewrite_enabled: bool = Field(True, alias="REWRITE_ENABLED")
    rewrite_gate: bool = Field(False, alias="REWRITE_GATE")
    """Whether questions that are complete as they were typed are not rewritten."""
    rewriter: Annotated[str, AfterValidator(_checked_rewriter)] = Field("", alias="REWRITER")
    """`LOCAL`, `ENDPOINT`, or the URL of an endpoint of its own. Empty: local where it is installed."""
    rewriter_model: str = Field("", alias="REWRITER_MODEL")
    """With a URL. Empty: the first one that it lists."""
    rewriter_api_key: Key = Field(SecretStr(NO_KEY), alias="REWRITER_API_KEY")
    rewriter_profile: Literal["gemma3", "gemma4", "base"] = Field("gemma3", alias="REWRITER_PROFILE")
    rewrite_timeout_seconds: float = Field(4.0, alias="REWRITE_TIMEOUT_SECONDS", gt=0, le=5)
    """After this the typed words are searched."""

    memory_enabled: bool = Field(False, alias="MEMORY_ENABLED")
    """Whether facts that people state of themselves are kept for their own later conversations."""

    retrieval_passages: int = Field(5, alias="RETRIEVAL_PASSAGES", ge=1, le=20)
    retrieval_min_similarity: float = Field(0.2, alias="RETRIEVAL_MIN_SIMILARITY", ge=-1, le=1)
    """Cosine similarity below which nothing was found; depends on the embedding model."""

    follow_ups: FollowUps = Field(FollowUps.ALWAYS, alias="FOLLOW_UPS")
    """Whose messages in the bot's own threads are answered without a mention: of all, of the asker, of nobody."""

    channel_scopes: Annotated[dict[Room, frozenset[str]], BeforeValidator(_checked_scopes)] = Field(
        {}, alias="CHANNEL_SCOPES"
    )
    """Channels in which more than the public documents are searched, with the scopes that their members may see."""

    discord_bot_token: Key | None = Field(None, alias="DISCORD_BOT_TOKEN")
    discord_api_base_url: Url | None = Field(None, alias="DISCORD_API_BASE_URL")
    """Of a proxy of Discord's API, with its version. Unset: Discord itself."""
    discord_message_content: bool = Field(True, alias="DISCORD_MESSAGE_CONTENT")
    """Whether to ask for the privileged intent."""
    discord_shards: int = Field(1, alias="DISCORD_SHARDS", ge=1, le=256)
    discord_servers: Ids = Field(frozenset(), alias="DISCORD_SERVERS")
    """Where the bot answers; empty: everywhere. The same for channels (or categories) and roles."""
    discord_channels: Ids = Field(frozenset(), alias="DISCORD_CHANNELS")
    discord_roles: Ids = Field(frozenset(), alias="DISCORD_ROLES")
    discord_staff_roles: Ids = Field(frozenset(), alias="DISCORD_STAFF_ROLES")
    """Whose word in a thread makes the bot silent there."""
    discord_forums: Ids = Field(frozenset(), alias="DISCORD_FORUMS")
    """Forums in which each new post is answered."""
    discord_private_messages: bool = Field(True, alias="DISCORD_PRIVATE_MESSAGES")

    slack_bot_token: Annotated[SecretStr, AfterValidator(_begins_with("xoxb-"))] | None = Field(
        None, alias="SLACK_BOT_TOKEN"
    )
    slack_app_token: Annotated[SecretStr, AfterValidator(_begins_with("xapp-"))] | None = Field(
        None, alias="SLACK_APP_TOKEN"
    )
    slack_signing_secret: Annotated[SecretStr, AfterValidator(_checked_secret)] | None = Field(
        None, alias="SLACK_SIGNING_SECRET"
    )
    """In place of the app token: Slack sends requests over HTTP."""
    slack_client_id: Annotated[str, AfterValidator(_checked_client_id)] = Field("", alias="SLACK_CLIENT_ID")
    slack_client_secret: Annotated[SecretStr, AfterValidator(_checked_secret)] | None = Field(
        None, alias="SLACK_CLIENT_SECRET"
    )
    """In place of the bot token: workspaces install the app, and each has a token of its own."""
    slack_teams: SlackTeams = Field(frozenset(), alias="SLACK_TEAMS")
    """Workspaces and organizations that may install it; empty: any."""
    slack_http_host: Annotated[str, AfterValidator(_checked_host)] = Field("127.0.0.1", alias="SLACK_HTTP_HOST")
    slack_http_port: int = Field(3000, alias="SLACK_HTTP_PORT", ge=1, le=65535)
    """Where they are listened for."""
    slack_api_base_url: Url = Field("https://slack.com/api", alias="SLACK_API_BASE_URL")
    """Of the Web API; other than the default for GovSlack or a proxy."""
    slack_channels: SlackIds = Field(frozenset(), alias="SLACK_CHANNELS")
    """Where the bot answers; empty: wherever it is a member."""
    slack_staff: SlackIds = Field(frozenset(), alias="SLACK_STAFF")
    """Whose word in a thread makes the bot silent there."""
    slack_direct_messages: bool = Field(True, alias="SLACK_DIRECT_MESSAGES")


KEYS: Final = {str(field.alias): name for name, field in Settings.model_fields.items()}


def load(environment: Mapping[str, str], dotenv: Mapping[str, str | None] | None = None) -> Settings:
    """The settings in `environment`, those of a `.env` file beneath it. An empty value means unset.

    Raises `ConfigError` naming every mistake.
    """
    merged = {key: value for key, value in (dotenv or {}).items() if value and value.strip()} | {
        key: value for key, value in environment.items() if value.strip()
    }
    mistakes = [_unknown(key) for key in sorted(merged) if key not in KEYS and _looks_like_ours(key)]
    try:
        settings = Settings.model_validate({key: merged[key] for key in KEYS if key in merged})
    except ValidationError as error:
        mistakes += [_mistake(str(detail["loc"][0]), detail["msg"]) for detail in error.errors(include_input=False)]
    if not mistakes and settings.embedding_base_url and not settings.embedding_model:
        mistakes.append("EMBEDDING_MODEL must be set with EMBEDDING_BASE_URL: the index is kept for one model")
    if not mistakes:
        mistakes += _slack_mistakes(settings)
    if mistakes:
        many = f"{len(mistakes)} settings are wrong" if len(mistakes) > 1 else "A setting is wrong"
        raise ConfigError(f"{many}: {'; '.join(mistakes)}. See .env.example for all settings.")
    return settings


def _slack_mistakes(settings: Settings) -> list[str]:
    """Of settings that are right one by one."""
    ways = (settings.slack_app_token, settings.slack_signing_secret)
    if all(ways):
        return [
            "SLACK_APP_TOKEN (for Socket Mode) and SLACK_SIGNING_SECRET (for HTTP) must not both be set: an app has "
            "one of the two"
        ]
    if bool(settings.slack_client_id) != bool(settings.slack_client_secret):
        return ["SLACK_CLIENT_ID and SLACK_CLIENT_SECRET must be set together"]
    if settings.slack_signing_secret and settings.metrics_port == settings.slack_http_port:
        return ["METRICS_PORT and SLACK_HTTP_PORT must not be the same port"]
    tokens = (settings.slack_bot_token, settings.slack_client_secret)
    if all(tokens):
        return [
            "SLACK_BOT_TOKEN (of one workspace) and SLACK_CLIENT_ID (with which several install the app) must not both "
            "be set"
        ]
    if any(tokens) != any(ways):
        return [
            "SLACK_BOT_TOKEN (or SLACK_CLIENT_ID, for several workspaces) must be set together with SLACK_APP_TOKEN "
            "(for Socket Mode) or SLACK_SIGNING_SECRET (for HTTP): docs/slack.md tells where they are"
        ]
    return []


def from_environment() -> Settings:
    """The settings of this process, with those of `.env` in the working directory beneath them."""
    path = Path(".env")
    try:
        text = path.read_text(encoding="utf-8-sig") if path.is_file() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {type(error).__name__}. Fix or remove it.") from error
    if numbers := _unreadable_lines(text):
        lines = f"Line {numbers[0]}" if len(numbers) == 1 else f"Lines {', '.join(map(str, numbers))}"
        raise ConfigError(
            f"{lines} of {path} cannot be read: write NAME=VALUE, with a closing quote for each opening one."
        )
    return load(os.environ, dotenv_values(stream=io.StringIO(text)))


def _unreadable_lines(text: str) -> list[int]:
    """Their numbers from 1. A lone name is fine if it is not one of ours."""
    numbers = []
    for binding in parse_stream(io.StringIO(text)):
        name = re.match(r"\w*", binding.key or "")
        if binding.error or (binding.value is None and name and name[0] and _looks_like_ours(name[0])):
            original = binding.original.string
            blank = original[: len(original) - len(original.lstrip())]
            numbers.append(binding.original.line + blank.count("\n"))
    return numbers


def _looks_like_ours(key: str) -> bool:
    return key.startswith(OUR_PREFIXES) or bool(difflib.get_close_matches(key, KEYS, n=1, cutoff=0.8))


def _unknown(key: str) -> str:
    close = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.6)
    return f"{key} is not a setting" + (f" (did you mean {close[0]}?)" if close else "")


def _mistake(key: str, message: str) -> str:
    return f"{key} {message.removeprefix('Value error, ').replace('Input ', '').rstrip('.')}"
