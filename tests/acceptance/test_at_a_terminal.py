"""The same command with a person at a real pseudo terminal: streaming, colours, Ctrl-C, Ctrl-D."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import termios
import time
from collections.abc import AsyncIterator

import pytest

from tests.acceptance.conftest import COMMAND, Threadwise
from tests.servers.openai import OpenAIServer
from tests.servers.replies import Reply


class Terminal:
    """A pseudo terminal with `threadwise chat` behind it."""

    def __init__(self, primary: int, process: asyncio.subprocess.Process) -> None:
        self.primary, self.process = primary, process
        self.screen = self.everything = ""

    def types(self, keys: str) -> None:
        os.write(self.primary, keys.encode())

    async def shows(self, text: str, seconds: float = 30.0) -> None:
        """Waits until `text` has appeared since the last wait."""
        end = time.monotonic() + seconds
        while text not in self.screen:
            assert time.monotonic() < end, self.screen
            try:
                read = os.read(self.primary, 65536).decode(errors="replace")
                self.screen += read
                self.everything += read
            except BlockingIOError:
                await asyncio.sleep(0.02)
        self.screen = self.screen.split(text, 1)[1]


@pytest.fixture
async def terminal(threadwise: Threadwise) -> AsyncIterator[Terminal]:
    primary, secondary = pty.openpty()
    os.set_blocking(primary, False)

    def own_the_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = await asyncio.create_subprocess_exec(
        *COMMAND, "chat", "--docs", "docs",
        cwd=threadwise.directory, env=threadwise.environment({"TERM": "xterm-256color"}),
        stdin=secondary, stdout=secondary, stderr=secondary, start_new_session=True, preexec_fn=own_the_terminal,
    )  # fmt: skip
    os.close(secondary)
    yield Terminal(primary, process)
    if process.returncode is None:
        process.kill()
        await process.wait()
    os.close(primary)


async def test_an_answer_streams_can_be_stopped_with_ctrl_c_and_ctrl_d_leaves(terminal: Terminal, server: OpenAIServer):
    server.default = lambda body: Reply(pieces=("It takes ", "0.8 ", "L ", 30.0, "never"))
    await terminal.shows("Ctrl-D leaves")
    terminal.types("How much oil does the Kestrel take?\r")
    await terminal.shows("It takes 0.8")
    terminal.types("\x03")
    await terminal.shows("(stopped)", 5)
    await server.until(lambda: server.disconnects == 1, 5)

    server.default = lambda body: Reply(
        pieces=(
            "It takes ",
            "0.8 L ",
            "[1].",
        )
    )
    terminal.types("How much oil does the Kestrel take?\r")
    await terminal.shows("It takes 0.8 L [1].")
    await terminal.shows("Sources:")
    await terminal.shows("docs/kestrel.md")
    for _ in range(20):
        # Before the prompt is there again, the terminal itself takes Ctrl-D.
        terminal.types("\x04")
        with contextlib.suppress(TimeoutError):
            assert await asyncio.wait_for(terminal.process.wait(), 0.5) == 0
            break
    assert terminal.process.returncode == 0


async def test_no_escape_sequence_of_a_model_reaches_the_terminal(terminal: Terminal, server: OpenAIServer):
    server.default = lambda body: Reply(pieces=("It takes \x1b]0;owned\x07\x1b[2J0.8 L of oil [1].",))
    await terminal.shows("Ctrl-D leaves")
    terminal.types("How much oil does the Kestrel take?\r")
    await terminal.shows("It takes")
    await terminal.shows("0.8 L of oil [1].")
    await terminal.shows("docs/kestrel.md")
    assert "\x1b]0;owned" not in terminal.everything
    assert "\x1b[2J" not in terminal.everything
