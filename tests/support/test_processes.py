from __future__ import annotations

import os
import signal
import sys
import threading
import time

import pytest

from tests.support import leftovers
from tests.support.processes import StartChild, popen, spawn, wait_for


def shout(*words: str) -> None:
    """Run in a child by `test_a_function_of_a_module_runs_in_a_child`."""
    print(*(word.upper() for word in words), flush=True)


def test_a_child_is_talked_to_by_lines(start_child: StartChild) -> None:
    code = """
say("ready", *args)
while (line := hear()) is not None:
    say(line[::-1])
say("end")
"""
    child = start_child(code, "a", "b")
    child.expect("ready a b")
    child.send("abc")
    child.send("defg")
    assert child.wait_line() == "cba"
    assert child.wait_line() == "gfed"
    child.end_input()
    assert child.lines() == ["end"]
    assert child.wait() == 0


def test_a_function_of_a_module_runs_in_a_child(start_child: StartChild) -> None:
    assert start_child(shout, "to", "you").lines() == ["TO YOU"]


def test_a_local_function_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be imported"):
        spawn(lambda: None)


def test_lines_that_arrive_together_or_in_pieces_are_told_apart(start_child: StartChild) -> None:
    child = start_child("""
import sys
for piece in "one\\ntw", "o\\n\\nthr", "ee":
    sys.stdout.write(piece); sys.stdout.flush()
""")
    assert child.lines() == ["one", "two", "", "three"]


def test_what_a_child_wrote_to_stderr_is_in_the_message(start_child: StartChild) -> None:
    child = start_child("raise RuntimeError('this is why')")
    with pytest.raises(AssertionError, match=r"exit code 1(.|\n)*this is why"):
        child.wait_line()
    child = start_child("say('a'); hear()")
    with pytest.raises(AssertionError, match="expected 'b', the child said 'a'"):
        child.expect("b")
    with pytest.raises(AssertionError, match=r"nothing for 0\.01 s"):
        child.wait_line(0.01)
    with pytest.raises(AssertionError, match="still runs"):
        child.wait(0.01)


def test_a_killed_child_is_reaped(start_child: StartChild) -> None:
    child = start_child("say('up'); hear()")
    child.expect("up")
    child.kill()
    assert child.wait() == -signal.SIGKILL
    assert not child.running
    assert child.pid not in leftovers.children()


def test_a_paused_child_stands_still_until_resumed(start_child: StartChild) -> None:
    child = start_child("while (line := hear()) is not None: say(line)")
    child.send("a")
    child.expect("a")
    child.pause()
    child.send("b")
    with pytest.raises(AssertionError, match="said nothing"):
        child.wait_line(0.05)
    child.resume()
    child.expect("b")


def test_to_pause_what_has_ended_is_an_error(start_child: StartChild) -> None:
    child = start_child("")
    assert child.lines() == []
    with pytest.raises(AssertionError, match="has ended"):
        child.pause()
    assert child.wait() == 0


def test_grandchildren_end_with_the_child(start_child: StartChild) -> None:
    child = start_child("""
import os, subprocess, sys
grandchild = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
say(grandchild.pid)
hear()
""")
    grandchild = int(child.wait_line())
    assert leftovers.alive(grandchild)
    child.close()
    wait_for(lambda: not leftovers.alive(grandchild), what="the grandchild's end")


def test_the_environment_can_be_added_to(start_child: StartChild) -> None:
    child = start_child("import os; say(os.environ['WORD'], 'PATH' in os.environ)", env={"WORD": "x"})
    child.expect("x True")


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: the kernel ends children with their parent")
@pytest.mark.parametrize("in_thread", [False, True], ids=["main thread", "another thread"])
def test_children_die_with_a_process_that_is_killed(start_child: StartChild, in_thread: bool) -> None:
    parent = start_child(
        """
import threading
from tests.support.processes import popen, spawn
def begin():
    child = spawn("say('up'); hear()")
    child.expect("up")
    program = popen(["/bin/sleep", "600"])
    say(child.pid, program.pid)
if args == ["True"]:
    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
else:
    begin()
hear()
""",
        str(in_thread),
    )
    pids = [int(word) for word in parent.wait_line().split()]
    assert all(map(leftovers.alive, pids)), "a child must not end with the thread that asked for it"
    parent.kill()
    wait_for(lambda: not any(map(leftovers.alive, pids)), what="the children's end")


def test_a_program_keeps_the_pid_it_was_started_with() -> None:
    program = popen(["/bin/sh", "-c", "echo $$"], stdout=-1)
    said, _ = program.communicate()
    assert int(said) == program.pid
    assert program.returncode == 0


def test_wait_for_returns_the_answer_or_says_what_did_not_come() -> None:
    answers = iter([0, None, "yes"])
    assert wait_for(lambda: next(answers)) == "yes"
    with pytest.raises(AssertionError, match="the moon"):
        wait_for(lambda: False, within=0, what="the moon")


def test_leftovers_are_seen(start_child: StartChild) -> None:
    child = start_child("hear()")
    if sys.platform == "linux":
        assert child.pid in leftovers.children()
    child.close()
    assert child.pid not in leftovers.children()

    gate = threading.Event()
    thread = threading.Thread(target=gate.wait)
    thread.start()
    assert thread in leftovers.threads()
    gate.set()
    thread.join()
    assert thread not in leftovers.threads()
    assert leftovers.alive(os.getpid())


def test_starting_a_child_is_quick_enough_to_do_it_often(start_child: StartChild) -> None:
    began = time.monotonic()
    start_child("say('up')").expect("up")
    assert time.monotonic() - began < 5
