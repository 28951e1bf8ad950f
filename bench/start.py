"""From the start of the program to the first answer."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from bench.embedded import engine
from bench.figures import Figure, Result
from bench.process import LAST_OF_HELP, chat, environment, ingested, scripted_settings
from bench.run import DOCS, Run
from bench.scripted import scripted_server

GOAL_SECONDS: Final = 3.0
STARTS: Final = 5
QUESTION: Final = "Which files can be read?"
COUNTED: Final = (
    f"`threadwise chat` with its input in a pipe, from the start of the process to the end of its first answer; the "
    f"median of {STARTS} starts after one that does not count, so that files are in the page cache. Ready means that "
    f"/help is answered: the conversations and the index are open, the model was asked for its name and the embedder "
    f"for a vector. The vector process is still starting then, and the first question waits for it. docs/ is ingested."
)
_SLOWEST: Final = 12
"""Imports that the details name."""


def measure(run: Run) -> Result:
    with run.scratch() as scratch:
        return asyncio.run(_measured(run, scratch))


async def _measured(run: Run, scratch: Path) -> Result:
    without, beside = scratch / "without", scratch / "with"
    for directory in (without, beside):
        (directory / "data").mkdir(parents=True)
    async with scripted_server() as server:
        settings = scripted_settings(server.url)
        await ingested(without, settings, DOCS)
        ready = await _starts(run, "without the embedded model", without, settings, "/help", LAST_OF_HELP)
        asked = await _starts(run, "the first question", without, settings, QUESTION, "Sources:")
    await _prepare_models(run, beside)
    await ingested(beside, {}, DOCS)
    embedded = await _starts(run, "with the embedded model", beside, {}, "/help", LAST_OF_HELP)
    imports = await _imports(without)
    return Result(
        figures=[
            Figure(name="ready, without the embedded model", value=median(ready), unit="s", goal=GOAL_SECONDS),
            Figure(name="ready, slowest of the five", value=max(ready), unit="s"),
            Figure(name="of it, imports", value=sum(imports.values()), unit="s"),
            Figure(name="first question answered", value=median(asked), unit="s"),
            Figure(name="ready, with the embedded model", value=median(embedded), unit="s"),
        ],
        counted=COUNTED,
        details={"ready": ready, "asked": asked, "embedded": embedded, "imports": _heaviest(imports)},
    )


async def _starts(
    run: Run, what: str, directory: Path, settings: Mapping[str, str], said: str, answered: str
) -> Sequence[float]:
    seconds = []
    for number in range(STARTS + 1):
        async with chat(directory, settings, said) as started:
            seconds.append(await started.until(answered))
        run.advance(what, number + 1, STARTS + 1)
    return seconds[1:]


async def _prepare_models(run: Run, directory: Path) -> None:
    """The model files, made once for `DATA_DIR`, where the bot in `directory` looks for them."""
    async with engine(run, chat=True):
        pass
    os.symlink(run.data_dir / "models", directory / "data" / "models")


async def _imports(directory: Path) -> dict[str, float]:
    """Seconds that each package takes to import, without the packages that it imports itself."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "importtime", "-c", "import bot.command_line, bot.commands"),
        cwd=directory,
        env=environment(directory, {}),
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await process.communicate()
    packages: dict[str, float] = {}
    for microseconds, module in re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", told.decode()):
        package = module.partition(".")[0]
        packages[package] = packages.get(package, 0.0) + int(microseconds) / 1e6
    return packages


def _heaviest(imports: Mapping[str, float]) -> dict[str, float]:
    heaviest = sorted(imports, key=lambda name: -imports[name])[:_SLOWEST]
    return {name: round(imports[name], 3) for name in heaviest}
