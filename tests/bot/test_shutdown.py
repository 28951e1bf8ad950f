"""SIGTERM ends the process in time, whatever hangs in it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, sys, threading, time
from bot.shutdown import until_asked_to_stop

async def work():
    print("ready", flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        print("ending", flush=True)

async def main():
    {before}
    await until_asked_to_stop(work(), longest_end={longest})
    {after}
    print("ended", flush=True)

asyncio.run(main())
"""


def run(
    *signals: signal.Signals, before: str = "pass", after: str = "pass", longest: float = 20
) -> tuple[int, str, float]:
    """Exit code, output and seconds from the first signal to the end."""
    program = PROGRAM.format(before=before, after=after, longest=longest)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        for sent in signals:
            process.send_signal(sent)
            time.sleep(0.3)
        output, _ = process.communicate(timeout=20)
        return process.returncode, output, time.monotonic() - began


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_ends_the_work_in_order(sent: signal.Signals):
    code, output, _ = run(sent)
    assert (code, output) == (0, "ending\nended\n")


def test_a_thread_that_hangs_does_not_keep_the_process():
    """M10: `asyncio.run` waits for the thread, which sleeps for a minute."""
    hang = "asyncio.get_running_loop().run_in_executor(None, time.sleep, 60)"
    code, output, seconds = run(signal.SIGTERM, before=hang, longest=1.0)
    assert code == 1
    assert output == "ending\nended\n"
    assert seconds < 10


def test_a_second_signal_ends_at_once():
    code, output, _ = run(signal.SIGTERM, signal.SIGINT, after="await asyncio.sleep(60)")
    assert (code, output) == (128 + signal.SIGINT, "ending\n")


def test_what_the_work_raises_is_raised():
    program = PROGRAM.replace("await asyncio.sleep(60)", "raise ValueError('mine')").format(
        before="pass", after="pass", longest=20
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1
    assert "ValueError: mine" in done.stderr


STARTING = "import sys; sys.argv[1:] = ['run']; from bot import cli; print('up', flush=True); cli.main()"


@pytest.mark.parametrize("after", [0.01, 0.2, 0.5, 1.0, 2.0])
def test_a_process_that_is_just_starting_ends_in_order(tmp_path: Path, after: float):
    settings = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "DATA_DIR": str(tmp_path),
        "LLM_BASE_URL": "http://127.0.0.1:9/v1",
        "DISCORD_BOT_TOKEN": "TOKEN.for.tests",
        "DISCORD_API_BASE_URL": "http://127.0.0.1:9/api/v10",
    }
    with subprocess.Popen(
        [sys.executable, "-c", STARTING], env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        time.sleep(after)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0, said
    assert "Traceback" not in said
