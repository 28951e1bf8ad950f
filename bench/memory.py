"""What a bot without the embedded model holds of the memory after a conversation."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final

from bench.figures import Figure, Result
from bench.process import LAST_OF_HELP, chat, environment, ingested, resident_megabytes, scripted_settings
from bench.run import DOCS, Run
from bench.scripted import scripted_server

GOAL_MB: Final = 350.0
TURNS: Final = 20
QUESTIONS: Final = (
    "Which files can be read?",
    "How are documents split into passages?",
    "Where are conversations stored?",
    "How do I use Ollama as the model?",
    "What does the command /rewrite show?",
)
COUNTED: Final = (
    f"resident memory (VmRSS) of `threadwise chat` and of all processes below it, the vector process among them, after "
    f"{TURNS} turns in one thread; docs/ is ingested. A page that two processes share counts twice. Megabytes of "
    f"1,000,000 bytes. The scripted server is not counted."
)


def measure(run: Run) -> Result:
    if not Path("/proc/self/smaps_rollup").exists():
        raise RuntimeError("memory is measured on Linux only")
    with run.scratch() as scratch:
        return asyncio.run(_measured(run, scratch))


async def _measured(run: Run, scratch: Path) -> Result:
    async with scripted_server() as server:
        settings = scripted_settings(server.url)
        await ingested(scratch, settings, DOCS)
        async with chat(scratch, settings) as started:
            started.say("/help")
            await started.until(LAST_OF_HELP)
            before = resident_megabytes(started.pid)
            for number in range(TURNS):
                started.say(QUESTIONS[number % len(QUESTIONS)])
                await started.until("Sources:")
                run.advance("turns", number + 1, TURNS)
            after = resident_megabytes(started.pid)
    imports = await _after_imports(scratch)
    others = {name: megabytes for name, megabytes in after.items() if name != "itself"}
    return Result(
        figures=[
            Figure(name=f"all processes, after {TURNS} turns", value=sum(after.values()), unit="MB", goal=GOAL_MB),
            Figure(name="of it, the bot", value=after["itself"], unit="MB"),
            *(Figure(name=f"of it, {name}", value=megabytes, unit="MB") for name, megabytes in others.items()),
            Figure(name="the bot when it was ready", value=before["itself"], unit="MB"),
            Figure(name="Python with the bot's imports alone", value=imports, unit="MB"),
        ],
        counted=COUNTED,
        details={"before": before, "after": after},
    )


async def _after_imports(directory: Path) -> float:
    """Resident megabytes of a Python that has imported what the bot imports, and done nothing."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "import bot.commands; print(flush=True); input()"),
        cwd=directory,
        env=environment(directory, {}),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    megabytes = resident_megabytes(process.pid)["itself"]
    await process.communicate(b"\n")
    return megabytes
