"""The command line as a person uses it, and what it says when something is wrong."""

from __future__ import annotations

import asyncio
import signal
import socket
import sqlite3
from pathlib import Path

import pytest

from core.prompts import CONTEXT_CLOSE, CONTEXT_OPEN
from tests.acceptance.conftest import COMMAND, Ended, Threadwise
from tests.servers.openai import OpenAIServer
from tests.servers.replies import Json, Reply

STORY = "How much oil does the Kestrel take?\nand how often the filter?\n/rewrite\n/sources\n/context\n"


def rewriter_and_answerer(body: Json) -> Reply:
    text = body["messages"][0]["content"]
    if "one query for a search engine" in text:
        return Reply(pieces=("How often is the Kestrel filter changed?",))
    return Reply(
        pieces=("It is ", "so [1].") if "Question: and how" in body["messages"][-1]["content"] else ("0.8 L [1].",)
    )


async def test_the_story_a_question_a_follow_up_and_what_was_searched(threadwise: Threadwise, server: OpenAIServer):
    server.default = rewriter_and_answerer
    ended = await threadwise.run("chat", "--docs", "docs", said=STORY)
    assert ended.code == 0, ended.err
    assert "> How much oil does the Kestrel take?\n0.8 L [1].\nSources:\n[1] " in ended.out
    assert "(docs/kestrel.md)" in ended.out
    assert "Searched for: How often is the Kestrel filter changed?" in ended.out
    assert "Status:       rewritten" in ended.out
    assert "1 in the last prompt, 2 answered in this thread" in ended.out
    assert "demonstration" not in ended.err
    assert "Index: 2 documents, 3 passages." in ended.err, "counted after they were read"

    first, rewrite, second = server.chats
    assert rewrite["temperature"] == 0
    assert rewrite["max_tokens"] <= 256
    assert [m["role"] for m in first["messages"]] == ["user"]
    assert [m["role"] for m in second["messages"]] == ["user", "assistant", "user"]
    last = second["messages"][-1]["content"]
    order = [last.index(part) for part in (CONTEXT_OPEN, "Change the Kestrel filter", CONTEXT_CLOSE, "Question: ")]
    assert order == sorted(order)
    assert last.endswith("Question: and how often the filter?")


@pytest.mark.parametrize(
    ("props", "setting", "said"),
    [
        (None, "", "1 call at a time"),
        ({"total_slots": 3}, "", "3 calls at a time"),
        ({"total_slots": 3}, "6", "6 calls at a time"),
    ],
)
async def test_calls_at_a_time_are_what_the_server_says_and_what_the_setting_says_above_it(
    threadwise: Threadwise, server: OpenAIServer, props: Json | None, setting: str, said: str
):
    server.props = props
    ended = await threadwise.run("chat", LLM_PARALLEL=setting)
    assert said in ended.err


async def test_a_server_that_stops_under_a_chat_costs_two_seconds_and_the_passages_are_shown(
    threadwise: Threadwise, server: OpenAIServer
):
    server.default = lambda body: Reply(status=503)
    ended = await threadwise.run("chat", "--docs", "docs", said="How much oil does the Kestrel take?\n")
    assert "The model is not available right now." in ended.out
    assert 2 <= len(server.chats) <= 4


async def test_threads_survive_a_restart_and_can_be_opened_again(threadwise: Threadwise, server: OpenAIServer):
    server.default = rewriter_and_answerer
    await threadwise.run("chat", "--docs", "docs", said="How much oil does the Kestrel take?\n")
    ended = await threadwise.run(
        "chat", said="/threads\n/open 1\nand how often the filter?\n/rewrite\n/forget\n/threads\n"
    )
    assert "1 turn  How much oil does the Kestrel take?" in ended.out
    assert "Searched for: How often is the Kestrel filter changed?" in ended.out
    assert "Removed 2 turns for good." in ended.out
    assert ended.out.rstrip().endswith("No threads yet.")


async def test_each_command_says_something_useful_before_anything_was_asked(threadwise: Threadwise):
    said = "/rewrite\n/sources\n/context\n/threads\n/open 3\n/new\n/nonsense\n/help\n/quit\nnever read\n"
    ended = await threadwise.run("chat", said=said)
    assert ended.code == 0
    assert ended.out.count("Nothing has been asked in this thread yet.") == 3
    for line in (
        "No threads yet.",
        "Which one?",
        "A new thread.",
        "/nonsense is no command",
        "/forget     remove this",
    ):
        assert line in ended.out
    assert "never read" not in ended.out


async def test_a_second_ingest_reads_only_what_changed_and_forgets_what_is_gone(
    threadwise: Threadwise, server: OpenAIServer
):
    first = await threadwise.run("ingest", "docs")
    assert (first.code, "2 added" in first.err) == (0, True)
    embedded = len(server.requests)
    again = await threadwise.run("ingest", "docs")
    assert "0 added, 0 changed, 0 removed, 2 unchanged" in again.err
    # The probe of the endpoint at the start, and whether the model still has the width of the index.
    assert len(server.requests) == embedded + 2
    (threadwise.directory / "docs" / "heron.md").unlink()
    assert "1 removed" in (await threadwise.run("ingest", "docs")).err
    # An emptied folder is more often a mistake (an unmounted disk) than a wish.
    (threadwise.directory / "docs" / "kestrel.md").unlink()
    refused(await threadwise.run("ingest", "docs"), "nothing was changed")


async def test_files_that_cannot_be_read_are_named_one_a_line_and_the_others_are_ingested(threadwise: Threadwise):
    docs = threadwise.directory / "docs"
    (docs / "binary.md").write_bytes(b"\x00\x01\x02\xff" * 100)
    (docs / "empty.md").write_text("")
    ended = await threadwise.run("ingest", "docs")
    assert ended.code == 1
    lines = [line for line in ended.err.splitlines() if line.startswith("not read:")]
    assert len(lines) == 2
    assert "2 added" in ended.err
    assert "2 not read" in ended.err


def refused(ended: Ended, *parts: str, code: int = 1) -> None:
    """Ended with one line on standard error that says all `parts`, and no traceback."""
    assert ended.code == code, ended.err
    lines = [line for line in ended.err.strip().splitlines() if line.startswith("threadwise:")]
    assert len(lines) == 1, ended.err
    assert "Traceback" not in ended.err
    for part in parts:
        assert part in lines[0]


async def test_an_empty_folder_and_a_missing_path_are_refused(threadwise: Threadwise):
    (threadwise.directory / "empty").mkdir()
    refused(await threadwise.run("ingest", "empty"), "nothing was changed")
    refused(await threadwise.run("ingest", "nowhere"), "nowhere")


async def test_all_wrong_settings_are_named_at_once_without_their_values(threadwise: Threadwise):
    ended = await threadwise.run(
        "chat", LLM_API_KEY="sk-canary", LLM_BASEURL="x", LLM_MAX_TOKENS="sk-canary", LLM_BASE_URL="nope"
    )
    refused(ended, "3 settings are wrong", "LLM_BASE_URL", "LLM_MAX_TOKENS", "did you mean", code=2)
    assert "canary" not in ended.err


async def test_a_setting_in_dotenv_counts(threadwise: Threadwise):
    (threadwise.directory / ".env").write_text("LLM_PROFILE=llama\n")
    refused(await threadwise.run("chat"), "LLM_PROFILE", code=2)


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(status=401), "LLM_API_KEY"),
        (Reply(status=404), "LLM_BASE_URL"),
        (Reply(body="<html>hello</html>"), "LLM_BASE_URL"),
    ],
    ids=["wrong key", "wrong path", "not a model"],
)
async def test_an_endpoint_that_cannot_be_used_is_refused_at_the_start(threadwise, server: OpenAIServer, reply, says):
    server.script(reply, path="/v1/models")
    refused(await threadwise.run("chat", said="x\n"), says)


async def test_an_endpoint_that_is_down_or_too_slow_is_refused_at_the_start(
    threadwise: Threadwise, server: OpenAIServer
):
    refused(await threadwise.run("chat", LLM_BASE_URL="http://127.0.0.1:9/v1"), "127.0.0.1:9", "LLM_BASE_URL")
    server.script(Reply(before="hang"), path="/v1/models")
    refused(await threadwise.run("chat"), "LLM_BASE_URL")


async def test_a_model_the_endpoint_does_not_serve_is_refused_with_those_it_does(threadwise: Threadwise):
    refused(await threadwise.run("chat", LLM_MODEL="gemma-99"), "LLM_MODEL", "test-model")


async def test_an_embedding_endpoint_that_is_down_is_refused_at_the_start(threadwise: Threadwise):
    refused(await threadwise.run("chat", EMBEDDING_BASE_URL="http://127.0.0.1:9/v1"), "127.0.0.1:9")


async def test_a_model_that_goes_down_meanwhile_leaves_the_passages_and_the_program_goes_on(
    threadwise, server: OpenAIServer
):
    server.default = lambda body: Reply(status=500)
    ended = await threadwise.run("chat", "--docs", "docs", said="How much oil does the Kestrel take?\n/sources\n")
    assert ended.code == 0
    assert "The model is not available right now." in ended.out
    assert "0.8 L of oil" in ended.out
    assert "Traceback" not in ended.out + ended.err


async def test_a_second_threadwise_on_the_same_data_is_refused(threadwise: Threadwise):
    process = await threadwise.start("chat")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"/help\n")
    await process.stdout.readline()
    refused(await threadwise.run("ingest", "docs"), "another Threadwise is using")
    process.stdin.close()
    assert await process.wait() == 0


async def test_a_database_from_a_newer_version_and_a_damaged_one_are_left_untouched(threadwise: Threadwise):
    await threadwise.run("chat", said="hello\n")
    path = threadwise.directory / "data" / "conversations.db"
    database = sqlite3.connect(path)
    database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.commit()
    database.close()
    refused(await threadwise.run("chat"), "newer")
    path.write_bytes(b"garbage" * 1000)
    refused(await threadwise.run("chat"), "conversations.db")
    assert path.read_bytes() == b"garbage" * 1000


async def test_a_data_directory_that_cannot_be_written_is_refused(threadwise: Threadwise, tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    refused(await threadwise.run("chat", DATA_DIR=str(tmp_path / "file")), "file")


async def test_an_index_of_another_embedding_model_is_said_and_the_search_goes_on_by_words(threadwise: Threadwise):
    await threadwise.run("ingest", "docs")
    ended = await threadwise.run("chat", said="How much oil does the Kestrel take?\n", EMBEDDING_MODEL="another")
    assert ended.code == 0
    assert "test-embedder" in ended.err
    assert "another" in ended.err
    assert "threadwise ingest" in ended.err
    assert "(docs/kestrel.md)" in ended.out
    assert "Traceback" not in ended.out + ended.err


async def test_damaged_vectors_are_made_again_by_the_next_ingest(threadwise: Threadwise):
    await threadwise.run("ingest", "docs")
    (file,) = (threadwise.directory / "data" / "index").glob("vectors/chroma.sqlite3")
    file.write_bytes(b"\0" * 4096 + file.read_bytes()[4096:])
    (threadwise.directory / "docs" / "new.md").write_text("# Falcon\n\nThe Falcon motor turns at 900 rpm.\n")
    ended = await threadwise.run("ingest", "docs")
    assert (ended.code, "1 added" in ended.err) == (0, True), ended.err
    ended = await threadwise.run("chat", said="How fast does the Falcon motor turn?\n")
    assert "(docs/new.md)" in ended.out


async def test_ctrl_c_stops_the_answer_and_not_the_program(threadwise: Threadwise, server: OpenAIServer):
    server.default = lambda body: Reply(pieces=("It takes ", 30.0, "for ever"))
    process = await threadwise.start("chat", "--docs", "docs")
    assert process.stdin is not None
    process.stdin.write(b"How much oil does the Kestrel take?\n")
    await server.until(lambda: len(server.chats) == 1, 30)
    await asyncio.sleep(0.3)
    process.send_signal(signal.SIGINT)
    await server.until(lambda: server.disconnects == 1, 5)
    server.default = lambda body: Reply(pieces=("0.8 L [1].",))
    process.stdin.write(b"How much oil does the Kestrel take?\n")
    process.stdin.close()
    out, err = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0
    assert "(stopped)" in out.decode()
    assert "0.8 L [1]." in out.decode()
    assert b"Traceback" not in out + err


async def test_the_help_teaches_by_example_without_reading_any_setting(threadwise: Threadwise):
    for arguments in (("--help",), ("ingest", "--help"), ("chat", "--help")):
        ended = await threadwise.run(*arguments, LLM_MAX_TOKENS="wrong")
        assert ended.code == 0
        assert "examples:" in ended.out
    assert (await threadwise.run()).code == 2


async def test_an_empty_path_is_not_the_folder_where_one_stands(threadwise: Threadwise):
    for arguments in (("ingest", ""), ("chat", "--docs", " "), ("eval", "x", "--docs", "x", "--limit", "9" * 5000)):
        ended = await threadwise.run(*arguments)
        assert ended.code == 2
        assert "must " in ended.err
        assert "Traceback" not in ended.err


async def interrupted(threadwise: Threadwise, said: bytes, until: bytes) -> tuple[int, bytes, bytes]:
    """Ctrl-C in a chat whose standard input stays open; the code it ends with, what it printed."""
    process = await threadwise.start("chat", "--docs", "docs")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(said)
    out = await asyncio.wait_for(process.stdout.readuntil(until), 30)
    await asyncio.sleep(0.5)
    process.send_signal(signal.SIGINT)
    try:
        code = await asyncio.wait_for(process.wait(), 10)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.stderr is not None
    return code, out + await process.stdout.read(), await process.stderr.read()


@pytest.mark.parametrize(
    ("said", "until"),
    [(b"/help\n", b"not the program."), (b"How much oil does the Kestrel take?\n", b"kestrel.md)")],
    ids=["before any question", "after one"],
)
async def test_ctrl_c_between_questions_ends_a_chat_whose_pipe_stays_open(
    threadwise: Threadwise, said: bytes, until: bytes
):
    code, _, err = await interrupted(threadwise, said, until)
    assert code == 130
    assert b"Traceback" not in err
    assert b"Fatal" not in err
    # The folder is free again.
    assert (await threadwise.run("chat", said="/help\n")).code == 0


async def test_a_number_of_any_length_is_no_end_of_the_chat(threadwise: Threadwise):
    ended = await threadwise.run("chat", "--docs", "docs", said=f"What is a Heron?\n/open {'9' * 5000}\n/new\n")
    assert (ended.code, "A new thread." in ended.out) == (0, True), ended.err
    assert "Which one?" in ended.out


async def test_many_lines_and_a_huge_one_all_arrive_in_order(threadwise: Threadwise):
    said = "".join(f"/no{n}\n" for n in range(200)) + "/" + "x" * 300_000 + "\n/new"
    ended = await threadwise.run("chat", said=said)
    assert [f"/no{n} is no command" in ended.out for n in range(200)] == [True] * 200
    assert ended.out.index("/no7 is") < ended.out.index("/no199 is") < ended.out.index("A new thread.")
    assert ended.out.count("is no command") == 201


async def test_documents_that_cannot_be_ingested_do_not_keep_the_chat_from_those_of_before(threadwise: Threadwise):
    refused(await threadwise.run("chat", "--docs", "nowhere", said="x\n"), "nowhere")
    await threadwise.run("ingest", "docs")
    ended = await threadwise.run("chat", "--docs", "nowhere", said="How much oil does the Kestrel take?\n")
    assert ended.code == 0
    assert sum("nowhere" in line for line in ended.err.splitlines()) == 1
    assert "(docs/kestrel.md)" in ended.out
    assert "Traceback" not in ended.err


async def test_a_metrics_port_in_use_is_refused_before_anything_is_opened(threadwise: Threadwise, server: OpenAIServer):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = await threadwise.run("chat", said="x\n", METRICS_PORT=str(taken.getsockname()[1]))
    refused(ended, "METRICS_PORT", code=2)
    assert "Model:" not in ended.err
    assert server.requests == []
    assert not (threadwise.directory / "data").exists()


@pytest.mark.parametrize(
    ("redirection", "says"),
    [(">/dev/full", "No space left"), (">&-", "Standard output is closed"), ("<&-", "Standard input is closed")],
)
async def test_a_broken_standard_stream_is_said_in_one_line(threadwise: Threadwise, redirection: str, says: str):
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND, "chat",
        cwd=threadwise.directory, env=threadwise.environment({}),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(b"/help\n"), 30)
    refused(Ended(process.returncode or 0, out.decode(), err.decode()), says)


async def test_what_the_encoding_of_standard_input_does_not_know_is_replaced(threadwise: Threadwise):
    ended = await threadwise.run("chat", said="/caf\u00e9\n/new\n", PYTHONIOENCODING="ascii")
    assert (ended.code, "A new thread." in ended.out) == (0, True), ended.err


@pytest.mark.parametrize("tenths", range(1, 6))
async def test_ctrl_c_in_the_first_moments_ends_without_a_traceback(threadwise: Threadwise, tenths: int):
    process = await threadwise.start("chat")
    await asyncio.sleep(tenths / 10)
    process.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), 30)
    # Before the first line of ours the interpreter itself says what happened.
    assert b"bot/" not in err
    assert process.returncode in (130, -signal.SIGINT, 0)


async def test_a_question_stopped_before_its_answer_is_called_stopped(threadwise: Threadwise, server: OpenAIServer):
    server.default = lambda body: Reply(pieces=(30.0, "for ever"))
    process = await threadwise.start("chat", "--docs", "docs")
    assert process.stdin is not None
    process.stdin.write(b"How much oil does the Kestrel take?\n/rewrite\n")
    await server.until(lambda: len(server.chats) == 1, 30)
    await asyncio.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.stdin.close()
    out, _ = await asyncio.wait_for(process.communicate(), 30)
    assert b"Status:       stopped before it was searched" in out
    assert b"Searched for: (not kept)" in out
    assert b"failed" not in out
