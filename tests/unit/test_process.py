"""Forking: which objects are told, in which order, and what becomes of descriptors."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref

import pytest

from holdtight.base import process


@pytest.fixture(autouse=True)
def undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes what these tests register."""
    monkeypatch.setattr(process, "_told", weakref.WeakSet())
    monkeypatch.setattr(process, "_functions", [])
    monkeypatch.setattr(process, "current", process._Process())


class Told:
    def __init__(self) -> None:
        self.times = 0

    def after_fork(self) -> None:
        self.times += 1


def test_functions_and_objects_are_told_once_a_fork() -> None:
    calls: list[int] = []
    told = Told()
    process.on_fork(lambda: calls.append(1))
    process.tell_of_fork(told)
    process.tell_of_fork(told)
    process._after_fork()
    assert (calls, told.times, process.current.epoch) == ([1], 1, 1)
    process._after_fork()
    assert (calls, told.times, process.current.epoch) == ([1, 1], 2, 2)


def test_the_epoch_has_moved_on_before_anybody_is_told() -> None:
    seen: list[int] = []
    process.on_fork(lambda: seen.append(process.current.epoch))
    process._after_fork()
    assert seen == [1]


def test_objects_are_held_weakly() -> None:
    told = Told()
    gone = weakref.ref(told)
    process.tell_of_fork(told)
    del told
    gc.collect()
    assert gone() is None
    process._after_fork()


def test_one_that_fails_does_not_keep_the_others_from_being_told() -> None:
    calls: list[int] = []

    def fail() -> None:
        raise ValueError

    process.on_fork(fail)
    process.on_fork(lambda: calls.append(1))
    try:
        process._after_fork()
    except ValueError:
        pass
    assert calls == [1]


def test_an_abandoned_descriptor_is_silent_and_still_there_to_be_closed() -> None:
    reading, writing = os.pipe()
    process.abandon_descriptor(writing)
    assert os.read(reading, 1) == b"", "the other side sees the end, as nobody else has it open"
    os.write(writing, b"to nobody")
    assert not os.get_inheritable(writing)
    os.close(writing)
    os.close(reading)


def test_a_descriptor_that_is_no_more_is_abandoned_without_a_word() -> None:
    process.abandon_descriptor(-1)


def test_a_forked_child_has_a_new_epoch_a_new_identity_and_no_threads_of_ours() -> None:
    script = """
import os, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what is tested
from holdtight import Locks
from holdtight.base import process
from holdtight.base.callbacks import tell
from holdtight.keeper.keeper import keeper
locks = Locks("redis://127.0.0.1:1")
old, old_keeper = locks.client.id, keeper()
started = threading.Event(); tell(started.set); started.wait(10)
keeper().run_soon(int)
child = os.fork()
if child == 0:
    again = threading.Event(); tell(again.set)
    fine = (process.current.epoch == 1 and locks.client.id != old and keeper() is not old_keeper
            and again.wait(10) and keeper().statistics()["charges"] == 0)
    os._exit(0 if fine else 1)
assert process.current.epoch == 0 and locks.client.id == old and keeper() is old_keeper
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
