"""Settings: all mistakes at once, never the value of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.config import KEYS, load
from core.errors import ConfigError


def test_without_any_setting_the_defaults_hold_and_the_model_is_embedded():
    settings = load({})
    assert settings.llm_base_url is None
    assert settings.data_dir == Path("data")
    assert settings.rewrite_enabled


def test_settings_are_read_from_the_environment_and_from_dotenv_beneath_it():
    environment = {"LLM_BASE_URL": "http://127.0.0.1:8000/v1/", "LLM_MODEL": "gemma"}
    settings = load(environment, {"LLM_MODEL": "other", "LLM_MAX_TOKENS": "100"})
    assert (settings.llm_base_url, settings.llm_model, settings.llm_max_tokens) == (
        "http://127.0.0.1:8000/v1",
        "gemma",
        100,
    )


def test_an_empty_value_means_unset():
    assert load({"LLM_BASE_URL": "", "LLM_CONTEXT_TOKENS": " "}).llm_context_tokens is None


def test_all_mistakes_are_named_at_once_with_what_would_be_right():
    with pytest.raises(ConfigError) as caught:
        load({"LLM_BASE_URL": "localhost:8000", "LLM_MAX_TOKENS": "many", "LLM_PROFILE": "llama", "LLM_BASEURL": "x"})
    text = str(caught.value)
    assert "4 settings are wrong" in text
    assert all(key in text for key in ("LLM_BASE_URL must start with http", "LLM_MAX_TOKENS", "LLM_PROFILE", "gemma3"))
    assert "LLM_BASEURL is not a setting (did you mean LLM_BASE_URL?)" in text
    assert "\n" not in text


@pytest.mark.parametrize("key", sorted(KEYS))
def test_the_value_of_a_wrong_setting_is_never_shown(key: str):
    canary = "http://sk-canary-4711@x/chat/completions\x00"
    try:
        said = repr(load({key: canary}))
    except ConfigError as error:
        said = str(error)
    # What is no secret may be shown by whoever prints the settings, but an error never shows a value.
    assert "canary" not in said or said.startswith("Settings(")


def test_keys_are_hidden_in_the_settings_own_text():
    settings = load({"LLM_API_KEY": "sk-canary-4711", "EMBEDDING_API_KEY": "sk-canary-4711"})
    assert "canary" not in repr(settings)
    assert "canary" not in str(settings)
    assert settings.llm_api_key.get_secret_value() == "sk-canary-4711"


def test_an_embedding_endpoint_needs_a_model_name_since_the_index_is_kept_for_one():
    with pytest.raises(ConfigError, match="EMBEDDING_MODEL must be set"):
        load({"EMBEDDING_BASE_URL": "http://127.0.0.1:1/v1"})


def test_somebody_elses_variables_are_no_mistakes():
    load(
        {
            "LOG_FORMAT": "json",
            "DATA_HOME": "x",
            "BOT_TOKEN": "y",
            "PATH": "/bin",
            "OPENAI_API_KEY": "x",
            "DATABASE_URL": "y",
            "HOME": "/root",
            "LANG": "C",
        }
    )


def test_the_example_file_shows_every_setting_with_its_default():
    lines = (Path(__file__).parents[2] / ".env.example").read_text(encoding="utf-8").splitlines()
    shown = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert set(shown) == set(KEYS)
    assert load(shown) == load({})
