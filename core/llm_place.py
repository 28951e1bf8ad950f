"""Which endpoint a message is about, and which settings lead there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The names of the settings of an endpoint, for messages that tell what to do."""

    url: str
    key: str
    model: str


LLM: Final = Named(url="LLM_BASE_URL", key="LLM_API_KEY", model="LLM_MODEL")
REWRITER: Final = Named(url="REWRITER", key="REWRITER_API_KEY", model="REWRITER_MODEL")


@dataclass(frozen=True, slots=True)
class Place:
    """As text it is host and port."""

    host: str
    named: Named = LLM

    def __str__(self) -> str:
        return self.host
