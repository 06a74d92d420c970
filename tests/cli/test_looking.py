"""`holdtight ls`, `show`, `wait`: what people and programs see of locks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from holdtight import Locks, LockTimeout
from holdtight.cli.rows import duration
from tests.cli.conftest import ME, Cli, Run
from tests.support.processes import wait_for
from tests.support.servers import RunningServer


@pytest.fixture
def a_queue(locks: Locks) -> Iterator[None]:
    """order:42 is held, and a thread that holds stock:7 waits for it for longer than `deadlock_after`."""
    found = threading.Event()

    def wait() -> None:
        with locks.lock("stock:7", label="picker"):
            try:
                with locks.lock("order:42", wait=60):
                    pass
            except LockTimeout:
                pass

    thread = threading.Thread(target=wait)
    with locks.lock("order:42", label="checkout"):
        thread.start()
        wait_for(lambda: any(holder.waits_for for holder in locks.inspect("stock:7").holders), what="a record")
        found.set()
        yield
    thread.join()


def test_ls_is_an_aligned_table_without_escapes(run: Run, locks: Locks) -> None:
    with (
        locks.lock("order:42", label="checkout") as lease,
        locks.rwlock("a name with blanks").read(),
        locks.semaphore("encode", permits=3),
        locks.semaphore("encode", permits=3),
    ):
        code, out, err = run("ls")
    header, *rows = out.splitlines()
    assert (code, err) == (0, "")
    assert header.split() == ["NAME", "KIND", "HOLDER", "AGE", "LEFT", "QUEUE", "LABEL", "FENCE"]
    assert [row.split("  ")[0] for row in rows] == ["a name with blanks", "encode", "order:42"]
    at = {column: header.index(column) for column in header.split()}
    order = rows[2]
    assert order[at["HOLDER"] :].startswith(ME)
    assert order[at["LABEL"] :].split() == ["checkout", str(lease.fence)]
    assert f"{ME} +1" in rows[1]
    assert "\x1b" not in out


def test_ls_takes_a_pattern_and_an_order(run: Run, locks: Locks, a_queue: None) -> None:
    def names(*words: str) -> list[str]:
        return [line.split()[0] for line in run("ls", *words)[1].splitlines()[1:]]

    assert names() == ["order:42", "stock:7"]
    assert names("stock*") == ["stock:7"]
    assert names("--sort", "queue") == ["order:42", "stock:7"]
    assert names("nothing*") == []


def test_ls_as_json_is_an_array_with_one_lock_a_line(run: Run, locks: Locks, a_queue: None) -> None:
    _, out, _ = run("--json", "ls")
    assert [line[0] for line in out.splitlines()] == ["[", "{", "{", "]"]
    by_name = {each["name"]: each for each in json.loads(out)}
    assert by_name["order:42"]["waiting"] == 1
    assert by_name["stock:7"]["holders"][0]["waits_for"] == "order:42"
    assert run("ls", "--json", "nothing*")[1] == "[]\n"


def test_names_that_a_terminal_would_obey_are_shown_as_data(run: Run, server: RunningServer) -> None:
    with Locks(server.url) as locks, locks.lock("x", label="[red]\u202eabc"):
        assert "[red]\\u202eabc" in run("ls")[1]
        assert "[red]\\u202eabc" in run("show", "x")[1]


def test_what_others_have_written_into_keys_makes_no_rows_of_its_own(run: Run, server: RunningServer) -> None:
    """A name or a label of this library has no control characters."""
    with Locks(server.url) as locks, locks.lock("x", label="cron"):
        server.command("COPY", "ht:{x}", "ht:{y\nz\t9}")
        server.command("APPEND", "ht:{x}", "\nnightly\t0")
        for words in (["ls"], ["top"]):
            shown = run(*words)[1]
            assert len(shown.splitlines()) == 3 + (words == ["top"])
            assert "y\\nz\\t9" in shown
            assert "cron\\nnightly\\t0" in shown
        assert len(run("show", "--graph", "x")[1].splitlines()) == 2


def test_show_says_who_holds_it_and_who_waits(run: Run, a_queue: None) -> None:
    code, out, _ = run("show", "order:42")
    assert code == 0
    assert "held, 1 waiting" in out
    assert "checkout" in out
    assert json.loads(run("show", "--json", "order:42")[1])["holders"][0]["label"] == "checkout"


def test_the_graph_follows_what_holders_wait_for(run: Run, a_queue: None) -> None:
    lines = run("show", "--graph", "stock:7")[1].splitlines()
    assert lines[0] == "stock:7"
    assert lines[1].startswith(f"  held by {ME} (picker), ")
    assert lines[2] == "    waits for order:42"
    assert lines[3].startswith(f"      held by {ME} (checkout), ")
    assert run("show", "--graph", "order:42")[1].splitlines()[-1] == f"  1. waits: {ME}"


def test_a_circle_is_shown_once() -> None:
    from holdtight import Holder, LockInfo
    from holdtight.cli.graph import graph

    infos = {
        "a": LockInfo("a", holders=(Holder("one", waits_for="b"),)),
        "b": LockInfo("b", holders=(Holder("two", waits_for="a"),)),
    }
    assert list(graph(infos["a"], infos.__getitem__))[-1].strip() == "cycle: a -> b -> a"


def test_wait_ends_when_the_lock_is_free_and_is_75_when_the_time_is_over(run: Run, cli: Cli, locks: Locks) -> None:
    with locks.lock("nightly"):
        assert run("wait", "-w", "0", "nightly") == (75, "", "holdtight: 'nightly' is not free after 0 s\n")
        assert run("wait", "--until", "held", "nightly") == (0, "", "")
        waiting = cli("wait", "nightly")
        assert locks.inspect("nightly").waiting == 0
    assert waiting.wait() == 0


def test_a_closed_pipe_is_silent(cli: Cli, locks: Locks) -> None:
    held = [locks.lock(f"a rather long name {number:0400}").acquire() for number in range(300)]
    run = cli("ls")
    run.wait_line()
    run._stdout.close()  # pyright: ignore[reportPrivateUsage]
    assert run.wait() == 0
    assert run.errors == ""
    for lease in held:
        lease.release()


def test_the_shell_completes_names_and_verbs(cli: Cli, locks: Locks) -> None:
    with locks.lock("order:42"), locks.lock("order:43"), locks.lock("stock:7"):

        def completed() -> bool:
            """It has 300 ms to look, which a busy machine may take away."""
            names = cli(_HOLDTIGHT_COMPLETE="zsh_complete", COMP_WORDS="holdtight show order", COMP_CWORD="2")
            found = [line for line in names.lines() if "order" in line or "stock" in line]
            assert found in ([], ["order:42", "order:43"])
            return bool(found)

        wait_for(completed)
    verbs = cli(_HOLDTIGHT_COMPLETE="bash_complete", COMP_WORDS="holdtight s", COMP_CWORD="1")
    assert verbs.lines() == ["plain,sem", "plain,show", "plain,serve"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0, "0.0s"), (4.12, "4.1s"), (59.96, "1m00s"), (127, "2m07s"), (7980, "2h13m"), (273600, "3d04h")],
)
def test_durations_are_short(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_help_names_every_verb_in_a_whole_sentence(run: Run) -> None:
    code, out, _ = run("--help")
    verbs = out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert code == 0
    assert len(verbs) == 15
    assert [line for line in verbs if not line.endswith(".") or line.endswith("...")] == []
