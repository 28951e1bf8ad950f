"""Settings: all mistakes at once, never the value of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.ports import ThreadKey
from bot.config import KEYS, from_environment, load
from bot.wiring import scope_by
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


@pytest.mark.parametrize(
    "text",
    [
        "\n# mine\n{}: http://canary/v1\n",
        "\n\n{}:http://canary/v1",
        '\n\n{}="http://canary/v1\n',
        "\n\n{}='canary\n",
        "\n\n{}\n",
        "\n\n{} http://canary\n",
    ],
)
def test_a_line_of_dotenv_that_cannot_be_read_is_named_by_its_number(tmp_path: Path, monkeypatch, text: str):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(text.format("LLM_BASE_URL"))
    with pytest.raises(ConfigError, match=r"^Line 3 of \.env cannot be read: write NAME=VALUE") as caught:
        from_environment()
    assert "canary" not in str(caught.value)


def test_dotenv_is_read_as_people_write_it(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LLM_MODEL", raising=False)
    (tmp_path / ".env").write_text(
        "\ufeffexport LLM_MODEL = 'gemma' # mine\nPATH\nBOT_NAME=\"  \"\nLLM_MAX_TOKENS=\n", encoding="utf-8"
    )
    settings = from_environment()
    assert (settings.llm_model, settings.bot_name, settings.llm_max_tokens) == ("gemma", "Threadwise", 512)


@pytest.mark.parametrize(
    "url",
    [
        "http://h/v1?key=canary",
        "http://h/v1#canary",
        "http://h?canary",
        "http://canary h/v1",
        "http://h/v1\tcanary",
        "http://h/v1\ncanary",
        "http://[::1",
        "http://[canary]/v1",
        "http://h:canary/v1",
        "http://h:/v1",
        "http://h:0/v1",
        "http://h:99999/v1",
        "http://h:²/v1",
        "http://:8000/v1",
        "http:///v1",
        "http://xn--/v1",
        f"http://{'canary' * 20}.org/v1",
        "http://canary..org/v1",
        "http://h/\udcff",
        "http://\udcff/v1",
    ],
)
def test_an_address_that_could_never_be_called_is_refused(url: str):
    with pytest.raises(ConfigError, match=r"A setting is wrong: LLM_BASE_URL (must|should)") as caught:
        load({"LLM_BASE_URL": url})
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("HTTP://Host:80/v1/", "http://Host:80/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://[::1]/v1", "http://[::1]/v1"),
        ("https://bücher.example/v1", "https://bücher.example/v1"),
        ("http://my_box:1/v1", "http://my_box:1/v1"),
    ],
)
def test_an_address_that_can_be_called_is_taken(url: str, read: str):
    assert load({"LLM_BASE_URL": url}).llm_base_url == read


@pytest.mark.parametrize("key", ["sk-canaryé", "sk-canary\nX-Evil: 1", "sk-canary\x7f", "sk-\udcffcanary"])
def test_a_key_that_no_header_can_hold_is_refused_without_being_shown(key: str):
    with pytest.raises(ConfigError, match=r"LLM_API_KEY (must be plain ASCII|should be a valid string)") as caught:
        load({"LLM_API_KEY": key})
    assert "canary" not in str(caught.value)


def test_the_log_level_is_read_in_any_case():
    assert load({"LOG_LEVEL": "debug"}).log_level == "DEBUG"


def test_the_data_directory_may_be_below_a_home_directory(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert load({"DATA_DIR": "~/x"}).data_dir == Path("/home/someone/x")
    with pytest.raises(ConfigError, match="DATA_DIR begins with a home directory that is not known"):
        load({"DATA_DIR": "~nobody-of-this-name/x"})


def test_ids_are_numbers_with_commas_between_them():
    settings = load({"DISCORD_SERVERS": "1, 22,333 ", "DISCORD_BOT_TOKEN": "abc.DEF"})
    assert settings.discord_servers == {1, 22, 333}
    assert settings.discord_channels == frozenset()
    assert "abc.DEF" not in repr(settings)
    for wrong in ("general", "1;2", "-1", "1.5", "9" * 21):
        with pytest.raises(ConfigError, match="DISCORD_CHANNELS must be ids"):
            load({"DISCORD_CHANNELS": wrong})
    with pytest.raises(ConfigError, match="DISCORD_SERVER is not a setting"):
        load({"DISCORD_SERVER": "1"})
    with pytest.raises(ConfigError, match="FOLLOW_UPS"):
        load({"FOLLOW_UPS": "sometimes"})


@pytest.mark.parametrize("typed", ["LOCAL", " local ", "Local"])
def test_words_may_be_written_in_capitals(typed: str):
    assert load({"REWRITER": typed}).rewriter == "local"


def test_scopes_are_listed_by_channel():
    settings = load({"CHANNEL_SCOPES": "12=staff, T1/C34 = staff+board"})
    assert settings.channel_scopes == {("discord", "", "12"): {"staff"}, ("slack", "T1", "C34"): {"staff", "board"}}
    for wrong in (
        "staff",
        "12=",
        "=staff",
        "12=Staff",
        "12=staff+",
        "C34=staff",
        "T1/D34=staff",
        "T1/=staff",
        "C1/T1=a",
    ):
        with pytest.raises(ConfigError, match="CHANNEL_SCOPES must be channel=scope"):
            load({"CHANNEL_SCOPES": wrong})


def test_a_scope_is_that_of_one_channel_and_of_none_that_is_called_alike():
    scope = scope_by(load({"CHANNEL_SCOPES": "12=staff, T1/C34=board"}).channel_scopes)

    def read(platform: str, workspace: str, channel: str) -> set[str]:
        thread = ThreadKey(platform=platform, workspace=workspace, channel=channel, thread="1.1")
        return set(scope(thread)) - {"public"}

    assert read("discord", "7", "12") == {"staff"}
    assert read("slack", "T1", "C34") == {"board"}
    for elsewhere in (("slack", "T1", "12"), ("slack", "T2", "C34"), ("discord", "T1", "C34"), ("terminal", "", "12")):
        assert not read(*elsewhere), elsewhere


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["SLACK_BOT_TOKEN"], "SLACK_APP_TOKEN"),
        (["SLACK_APP_TOKEN"], "must be set together with SLACK_APP_TOKEN"),
        (["SLACK_SIGNING_SECRET"], "must be set together with SLACK_APP_TOKEN"),
        (["SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET"], "must not both be set"),
        (["SLACK_CLIENT_ID", "SLACK_APP_TOKEN"], "SLACK_CLIENT_ID and SLACK_CLIENT_SECRET must be set together"),
        (["SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET"], "must be set together with SLACK_APP_TOKEN"),
        (["SLACK_BOT_TOKEN", "SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET", "SLACK_APP_TOKEN"], "of one workspace"),
        (["SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET", "SLACK_SIGNING_SECRET"], ""),
        (["SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET", "SLACK_APP_TOKEN"], ""),
        (["SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"], ""),
        (["SLACK_BOT_TOKEN", "SLACK_SIGNING_SECRET"], ""),
        ([], ""),
    ],
)
def test_slack_has_a_bot_token_and_one_of_its_two_ways(names: list[str], why: str):
    values = {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1", "SLACK_SIGNING_SECRET": 32 * "a"}
    values |= {"SLACK_CLIENT_ID": "12.34", "SLACK_CLIENT_SECRET": 32 * "b"}
    environment = {name: values[name] for name in names}
    if not why:
        load(environment)
        return
    with pytest.raises(ConfigError, match=why):
        load(environment)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLACK_SIGNING_SECRET", "short"),
        ("SLACK_HTTP_HOST", "http://x"),
        ("SLACK_HTTP_HOST", "a..b"),
        ("SLACK_HTTP_HOST", "."),
        ("SLACK_HTTP_HOST", 70 * "a"),
        ("SLACK_HTTP_PORT", "0"),
        ("SLACK_TEAMS", "C024BE91L"),
        ("SLACK_TEAMS", "works.slack.com"),
        ("SLACK_TEAMS", "T024BE7LD/C024BE91L"),
        ("SLACK_CHANNELS", "#general"),
        ("SLACK_CHANNELS", "C1/C024BE91L"),
        ("SLACK_CHANNELS", "T024BE7LD/"),
        ("SLACK_STAFF", "T1/T2/U1"),
    ],
)
def test_settings_of_slack_over_http_that_could_never_work_are_refused(name: str, value: str):
    with pytest.raises(ConfigError, match=name):
        load({name: value})


@pytest.mark.parametrize(
    "name", ["SLACK_CHANNELS", "SLACK_STAFF", "SLACK_TEAMS", "DISCORD_SERVERS", "DISCORD_CHANNELS", "DISCORD_ROLES"]
)
def test_a_list_of_nothing_but_commas_opens_nothing(name: str):
    with pytest.raises(ConfigError, match="no id"):
        load({name: " , "})


def test_channels_and_people_on_slack_are_listed_with_their_workspace_or_without():
    settings = load({"SLACK_CHANNELS": "C024BE91L, T024BE7LD/C024BE91M", "SLACK_STAFF": "E1A/W012A3CDE"})
    assert settings.slack_channels == {"C024BE91L", "T024BE7LD/C024BE91M"}
    assert settings.slack_staff == {"E1A/W012A3CDE"}


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "box.example.com.", 63 * "a"])
def test_a_name_or_an_address_of_the_machine_is_taken(host: str):
    assert load({"SLACK_HTTP_HOST": host}).slack_http_host == host


@pytest.mark.parametrize("wrong", ["....", ".", "1.", ".1", "1..2", "12345", "1.2.3"])
def test_a_client_id_is_two_numbers_with_a_dot_between_them(wrong: str):
    with pytest.raises(ConfigError, match="SLACK_CLIENT_ID must be two numbers with a dot between them"):
        load({"SLACK_CLIENT_ID": wrong})


def test_two_servers_at_one_port_are_a_mistake_before_one_of_them_fails_to_start():
    ports = {"METRICS_PORT": "3000", "SLACK_HTTP_PORT": "3000"}
    over_http = {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_SIGNING_SECRET": "a" * 32}
    with pytest.raises(ConfigError, match="METRICS_PORT and SLACK_HTTP_PORT"):
        load(ports | over_http)
    # With Socket Mode nobody listens there.
    assert load(ports | {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1"}).metrics_port == 3000
