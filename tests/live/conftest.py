"""A real model: the one at LLM_BASE_URL, or the embedded one. Rates are printed at the end of the run."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bot.config import from_environment
from bot.wiring import open_bench
from core.index.ingest import ingest
from tests.live.talking import Bot, Rates, write_documents

RATES = pytest.StashKey[Rates]()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bot]:
    """The bot over the `DOCUMENTS` of the test's module, by file name."""
    directory = tmp_path_factory.mktemp("live")
    folder = write_documents(directory / "docs", request.module.DOCUMENTS)
    async with open_bench(from_environment(), directory / "data", lambda step: None) as bench:
        await ingest([folder], bench.index)
        yield Bot(bench)


@pytest.fixture
def rates(request: pytest.FixtureRequest) -> Rates:
    return request.config.stash.setdefault(RATES, Rates(binding=from_environment().llm_base_url is not None))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rates = config.stash.get(RATES, None)
    if rates is None:
        return
    model = "the model at LLM_BASE_URL" if rates.binding else "the embedded model, whose goals do not bind"
    terminalreporter.section(f"rates with {model}")
    for rate in rates.found:
        terminalreporter.write_line(str(rate))
        if config.option.verbose > 0:
            for miss in rate.misses:
                terminalreporter.write_line(f"    {miss}")
