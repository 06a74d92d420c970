"""`holdtight run --at-least D`: the record of a run, as `Locks.once` keeps it."""

from typing import Any

from holdtight import JobSkipped, Lease, LeaseLost, LockError, Locks, Skipped
from holdtight.cli.options import say
from holdtight.recipes.once import Once, OnceCall

__all__ = ["Recorded"]


class Recorded:
    """One run of a command. The record is written before the command starts, in one step on the server that checks
    that the lock is ours and that no record stands in the way."""

    def __init__(self, locks: Locks, name: str, at_least: float, options: dict[str, Any], *, waits: bool) -> None:
        self._locks, self._name = locks, name
        given = {"at_least": at_least, "per": None, "after_failure": "wait", "on_skip": "return"}
        once = Once(locks, options, lambda: None, name=lambda: name, wait=None if waits else 0, **given)
        self._call: OnceCall = once.call((), {})
        self._lease: Lease | None = None
        self._written = False

    def look(self) -> None:
        """Raises JobSkipped if the record alone decides. A call that may wait does so for a run that is still on."""
        skipped = self._locks.run(self._call.look(), self._name)
        if skipped is not None:
            raise JobSkipped.of(skipped)

    def begin(self, lease: Lease) -> None:
        """Writes the record. Raises JobSkipped if another's stands, LeaseLost if the lock is not ours any more."""
        self._lease = lease
        try:
            found = self._locks.run(self._call.begin(lease.tenure.owner), self._name)
            self._written = found is None
            if isinstance(found, Skipped):
                raise JobSkipped.of(found)
            if found is not None:
                raise LeaseLost.because(self._name, found)
        except Exception:
            self._release()
            raise

    def take_back(self) -> None:
        """The command is not to run after all; the lock is still held."""
        if self._written:
            self._end(None, started=False)

    def end(self, command: str, status: int, *, started: bool, lost: bool) -> None:
        """Writes how the run ended."""
        from subprocess import CalledProcessError  # here: most runs end well

        error: Exception | None = None
        if status or lost:
            error = CalledProcessError(status, command)
        self._end(error, started=started)

    def _end(self, error: Exception | None, *, started: bool) -> None:
        assert self._lease is not None
        owner = self._lease.tenure.owner
        try:
            self._locks.run(self._call.end(owner, error, started=started), self._name)
        except LockError as failed:
            say(f"how the run ended is not recorded: {failed}", failed.code)

    def _release(self) -> None:
        assert self._lease is not None
        try:
            self._lease.release()
        except LockError as error:
            say(f"the lock was not given back, and ends with its ttl: {error}", error.code)
