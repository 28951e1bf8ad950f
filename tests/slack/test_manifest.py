"""The manifest asks for what the code listens to and calls, and for no more."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import yaml

from adapters.slack.actions import FORGET, HELP, RESET_HERE, SHOW_QUERY
from adapters.slack.installing import REDIRECT
from adapters.slack.workspaces import REMOVALS
from adapters.slack_http import PATH


def manifest(name: str = "manifest.yaml") -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(files("adapters.slack").joinpath(name).read_text("utf-8"))
    return loaded


def test_the_commands_and_shortcuts_are_those_that_are_known():
    features = manifest()["features"]
    assert {shortcut["callback_id"] for shortcut in features["shortcuts"]} == {SHOW_QUERY, RESET_HERE, FORGET}
    assert all(f"`{command['command']}" in HELP for command in features["slash_commands"])


def test_each_event_has_the_scope_that_it_needs():
    scopes = set(manifest()["oauth_config"]["scopes"]["bot"])
    events = manifest()["settings"]["event_subscriptions"]["bot_events"]
    assert set(REMOVALS) <= set(events)
    for event in events:
        kind = event.removeprefix("message.")
        needed = "app_mentions:read" if event == "app_mention" else f"{kind}:history"
        assert event in ("app_home_opened", *REMOVALS) or needed in scopes
    assert {"chat:write", "commands", "users:read"} <= scopes


def test_it_connects_without_a_public_address():
    settings = manifest()["settings"]
    assert settings["socket_mode_enabled"]
    assert settings["interactivity"]["is_enabled"]
    assert "url" not in str(manifest()).lower()


def test_the_manifest_for_http_differs_in_addresses_alone():
    over_http = manifest("manifest_http.yaml")
    settings, commands = over_http["settings"], over_http["features"]["slash_commands"]
    addresses = [settings["event_subscriptions"].pop("request_url"), settings["interactivity"].pop("request_url")]
    addresses += [command.pop("url") for command in commands]
    assert over_http["oauth_config"].pop("redirect_urls") == [f"https://threadwise.example.com{REDIRECT}"]
    assert set(addresses) == {f"https://threadwise.example.com{PATH}"}
    assert settings.pop("socket_mode_enabled") is False
    over_sockets = manifest()
    assert over_sockets["settings"].pop("socket_mode_enabled") is True
    assert over_http == over_sockets
