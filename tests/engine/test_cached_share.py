"""What the real server found in its prefix cache is exported, for each purpose of its own."""

from __future__ import annotations

from core.llm import HttpChatModel
from core.types import ChatRequest, Message
from tests.core.queueing import sample
from tests.engine.conftest import Started

HEAD = "Answer from the passages of the guide, in one line, with the number of the passage. " * 20


async def share(model: HttpChatModel, text: str) -> float:
    """The share that the metric got for one call."""
    before = sample("rag_cached_prompt_share_sum", purpose="generate")
    calls = sample("rag_cached_prompt_share_count", purpose="generate")
    request = ChatRequest(
        messages=(Message(role="user", content=text),), max_tokens=1, temperature=0.0, purpose="generate"
    )
    async for _ in model.stream(request):
        pass
    assert sample("rag_cached_prompt_share_count", purpose="generate") == calls + 1
    return sample("rag_cached_prompt_share_sum", purpose="generate") - before


async def test_a_prompt_that_goes_on_is_mostly_cached_and_a_new_one_is_not(started: Started) -> None:
    endpoint = started.chat
    model = HttpChatModel(
        endpoint.base_url, api_key=endpoint.api_key, model=endpoint.model, extra_body=endpoint.fields_for
    )
    try:
        fresh = await share(model, f"Quite another beginning. {HEAD}")
        again = await share(model, f"Quite another beginning. {HEAD} And on.")
    finally:
        await model.aclose()
    assert fresh < 0.5
    assert again > 0.9
