"""A thread in a terminal: the same dispatcher, with a person at a keyboard or questions in a pipe.

At a terminal the answer streams, Ctrl-C stops it, and the line can be edited. Piped in, each question
is echoed and answered in plain text, and the end of the file ends the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from datetime import UTC, datetime
from typing import Final, TextIO

from rich.console import Console
from rich.text import Text

from adapters.about_me import forget_as_told, memory_lines
from adapters.dispatcher import Dispatcher
from adapters.inspection import NOTHING_ASKED, context_lines, rewrite_lines, shortened
from adapters.piped import piped_lines
from adapters.ports import Inbound, Person, Readers, StoredTurn, ThreadInfo, ThreadKey, Threads
from adapters.present import source_lines
from adapters.terminal_screen import PLATFORM, TerminalScreen, printable
from core.errors import DataDirError

LISTED_THREADS: Final = 20
WORKSPACE: Final = "local"
ME: Final = Person(platform=PLATFORM, workspace=WORKSPACE, id="local")
"""Whoever sits at the terminal."""
MOST_DIGITS: Final = 9
"""Of a number that somebody types; Python itself refuses more than 4300."""

HELP: Final = """\
Ask in plain words; ask on in the same thread ("and on ARM?").
  /new        start a new thread
  /threads    list the threads, newest first
  /open N     go on in thread N of that list
  /rewrite    what was searched for the last question, and why
  /sources    the sources of the last answer
  /context    what the model was given: turns, passages, tokens
  /forget     remove this thread for good
  /memory     what is remembered of you, if MEMORY_ENABLED is set
  /forget me  remove that for good; /forget me 12 removes one of it by its number
  /help       this list
  /quit       leave (so does Ctrl-D)
Ctrl-C stops an answer, not the program."""


class TerminalChannel:
    """Reads lines, submits questions, prints replies."""

    def __init__(self, dispatcher: Dispatcher, threads: Threads, *, stdin: TextIO, console: Console) -> None:
        self._dispatcher = dispatcher
        self._threads = threads
        self._stdin = stdin
        self._console = console
        self._interactive = stdin.isatty() and console.is_terminal
        dispatcher.attach(TerminalScreen(console, streams=self._interactive))
        self._thread = _new_thread()
        self._listed: list[ThreadInfo] = []
        self._all_stored = True
        self._commands: dict[str, Callable[[str], Coroutine[None, None, None]]] = {
            "/new": self._new,
            "/threads": self._list,
            "/open": self._open,
            "/rewrite": self._rewrite,
            "/sources": self._sources,
            "/context": self._context,
            "/forget": self._forget,
            "/memory": self._memory,
            "/help": self._help,
        }

    async def run(self) -> bool:
        """Until end of file, `/quit` or Ctrl-D. False if something could not be stored meanwhile."""
        for text in await self._threads.abandon(PLATFORM):
            self._say(f'Not answered, since Threadwise was stopped: "{shortened(text)}"', style="yellow")
        await self._dispatcher.start()
        lines = self._typed_lines() if self._interactive else self._piped_lines()
        async with contextlib.aclosing(lines):
            async for line in lines:
                if line.casefold() in ("/quit", "/exit", "quit", "exit"):
                    break
                try:
                    await self._handle(line)
                except DataDirError as error:
                    # A full or locked disk may be usable again by the next question; what was stored stays.
                    self._all_stored = False
                    self._say(" ".join(str(error).split()), style="red")
        return self._all_stored

    async def _handle(self, line: str) -> None:
        if not line.startswith("/"):
            await self._ask(line)
            return
        name, _, rest = line.partition(" ")
        command = self._commands.get(name.casefold())
        if command is None:
            self._say(f"{name[:40]} is no command; /help lists them. To ask about it, put a word before it.")
        else:
            await command(rest.strip())

    async def _ask(self, text: str) -> None:
        inbound = Inbound(
            message_id=uuid.uuid4().hex,
            thread=self._thread,
            author_id=ME.id,
            author="you",
            text=text,
            readers=Readers.ALONE,
            sent_at=datetime.now(UTC),
        )
        admitted = await self._dispatcher.admit(inbound)
        if admitted is None or admitted.job is None:
            self._say("Not taken, for the reason told before.", style="yellow")
            return
        job = admitted.job
        with _on_interrupt(lambda: self._dispatcher.stop(job)):
            await self._dispatcher.ended(job)

    async def _new(self, _: str) -> None:
        self._thread = _new_thread()
        self._say("A new thread.")

    async def _list(self, _: str) -> None:
        self._listed = await self._threads.threads(PLATFORM, LISTED_THREADS)
        if not self._listed:
            self._say("No threads yet.")
        for number, info in enumerate(self._listed, 1):
            here = "*" if info.key == self._thread else " "
            turns = f"{info.turns} turn{'s' if info.turns != 1 else ''}"
            self._say(
                f"{here}{number:>3}  {info.last_at.astimezone():%Y-%m-%d %H:%M}  {turns:>8}  {shortened(info.title)}"
            )

    async def _open(self, which: str) -> None:
        if not self._listed:
            self._listed = await self._threads.threads(PLATFORM, LISTED_THREADS)
        if not which.isdecimal() or len(which) > MOST_DIGITS or not 0 < int(which) <= len(self._listed):
            self._say(f"Which one? /open takes a number from 1 to {len(self._listed)}; /threads lists them.")
            return
        self._thread = self._listed[int(which) - 1].key
        for turn in (await self._threads.turns(self._thread))[-3:]:
            self._say(f"> {shortened(turn.typed, 300)}", style="bold")
            self._say(shortened(turn.answered, 600) or "(no answer)")

    async def _last_turn(self) -> StoredTurn | None:
        turns = await self._threads.turns(self._thread)
        if not turns:
            self._say(NOTHING_ASKED)
            return None
        return turns[-1]

    async def _rewrite(self, _: str) -> None:
        if (turn := await self._last_turn()) is not None:
            for line in rewrite_lines(turn):
                self._say(line)

    async def _sources(self, _: str) -> None:
        if (turn := await self._last_turn()) is None:
            return
        for line in source_lines(turn.citations) or ["The last answer cites no source."]:
            self._say(line)

    async def _context(self, _: str) -> None:
        for line in context_lines(await self._threads.turns(self._thread)):
            self._say(line)

    async def _memory(self, _: str) -> None:
        for line in await memory_lines(self._dispatcher, ME):
            self._say(line)

    async def _forget(self, what: str) -> None:
        if (told := await forget_as_told(self._dispatcher, ME, what)) is not None:
            self._say(told)
            return
        if what:
            self._say("/forget removes this thread, /forget me what is remembered of you.")
            return
        turns = await self._dispatcher.forget(self._thread)
        self._thread = _new_thread()
        self._listed = []
        self._say(f"Removed {turns} turn{'s' if turns != 1 else ''} for good. This is a new thread.")

    async def _help(self, _: str) -> None:
        self._say(HELP)

    def _say(self, text: str, style: str = "") -> None:
        # In a pipe a line stays a line; at a terminal it is wrapped between words.
        self._console.print(Text(printable(text), style=style), soft_wrap=not self._console.is_terminal)

    async def _piped_lines(self) -> AsyncGenerator[str]:
        async with contextlib.aclosing(piped_lines(self._stdin)) as lines:
            async for line in lines:
                if line:
                    self._say(f"> {shortened(line, 300)}", style="bold")
                    yield line

    async def _typed_lines(self) -> AsyncGenerator[str]:
        # Slow to import, and no use to a pipe.
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import InMemoryHistory

        session: PromptSession[str] = PromptSession(history=InMemoryHistory())
        self._say('Ask a question, or /help. "/threads" lists earlier threads, Ctrl-D leaves.', style="dim")
        while True:
            try:
                line = (await session.prompt_async("> ")).strip()
            except KeyboardInterrupt:
                self._say("(Ctrl-D or /quit leaves)", style="dim")
                continue
            except EOFError:
                return
            if line:
                yield line


@contextlib.contextmanager
def _on_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C calls `stop` instead of ending the program."""
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)
    try:
        loop.add_signal_handler(signal.SIGINT, stop)
    except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        # Between questions Ctrl-C ends the program in order, as `asyncio.run` does it, not anywhere.
        signal.signal(signal.SIGINT, before)


def _new_thread() -> ThreadKey:
    return ThreadKey(platform=PLATFORM, workspace=WORKSPACE, channel="chat", thread=uuid.uuid4().hex[:12])
