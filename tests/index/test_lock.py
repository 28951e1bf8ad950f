from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from core.errors import DataDirError
from core.index.lock import lock_data_dir


def test_a_second_threadwise_is_refused_until_the_first_has_ended(data_dir: Path) -> None:
    with lock_data_dir(data_dir):
        assert "another Threadwise is using" in other_process(data_dir)
        with pytest.raises(DataDirError, match="stop it first"):
            lock_data_dir(data_dir)
    assert other_process(data_dir) == "locked\n"


def test_a_killed_threadwise_leaves_no_lock_behind(data_dir: Path) -> None:
    other_process(data_dir, then="import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    lock_data_dir(data_dir).close()


def test_closing_twice_closes_nothing_else(data_dir: Path) -> None:
    lock = lock_data_dir(data_dir)
    lock.close()
    with lock_data_dir(data_dir):
        lock.close()
        assert "another Threadwise" in other_process(data_dir)


def other_process(data_dir: Path, then: str = "pass") -> str:
    code = f"""
        from pathlib import Path
        from core.errors import DataDirError
        from core.index.lock import lock_data_dir
        try:
            lock = lock_data_dir(Path({str(data_dir)!r}))
            print("locked")
        except DataDirError as error:
            print(error)
        {then}
    """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    ).stdout
