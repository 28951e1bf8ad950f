"""What the story of three turns is about: each question has its own section, and only the conversation tells which."""

from __future__ import annotations

GUIDE = """\
# Kestrel agent

## Install on Linux

To install the Kestrel agent on Linux, download the package `kestrel-agent.deb` and run `dpkg -i kestrel-agent.deb`.

## Install on ARM

On ARM install the Kestrel agent from the package `kestrel-agent-arm64.deb`; a Raspberry Pi 4 or newer is needed.

## GPU driver

The Kestrel agent needs the GPU driver 550 or newer on the host; install the driver before the agent.

## Remove

To remove the Kestrel agent run `dpkg -r kestrel-agent`.
"""
EMBEDDED = {
    "LLM_BASE_URL": "",
    "REWRITER": "",
    "EMBEDDING_BASE_URL": "",
    "EMBEDDING_MODEL": "",
    "RETRIEVAL_MIN_SIMILARITY": "0.2",
}
"""Settings for the embedded models."""
