"""`holdtight run NAME -- COMMAND`, `holdtight sem` and `holdtight lead`: a command under a lock."""

import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, NoReturn, TypeVar

import click

from holdtight import Lease, LeaseLost, LockError, Locks, NotOwner, Unavailable
from holdtight.cli.child import Child, Guardian, Terminal
from holdtight.cli.exits import LOST, NOT_ACQUIRED, exit_code
from holdtight.cli.names import NAME
from holdtight.cli.options import DURATION, common, of, say, text_of, usage
from holdtight.cli.running import Ended, Running, Signals, end_by

__all__ = ["lead", "run", "sem"]

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_TTL = 30.0
EXITS = """\b
Exit codes: the command's own, 128+n if signal n ended it, 126 and 127 if it cannot be started;
64 usage, 69 server not reached, 70 internal, 75 not acquired, 76 lost, 77 not permitted.
"""


AGAIN = "HOLDTIGHT_LEAD_AGAIN"
"""Set for a `lead` that has led before."""
NOT_GIVEN_BACK = "the lock was not given back, and ends with its ttl: {}"
PAUSE = 1.0
"""Seconds between two campaigns of a `lead` that cannot reach the server."""


def _options(command: F, on_lost: Sequence[str] = ("term", "kill", "warn")) -> F:
    for option in (
        click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND..."),
        click.argument("name", type=NAME),
        click.option("--label", metavar="TEXT", help="A text for those who look (the command's base name)."),
        click.option(
            "--kill-after",
            type=DURATION,
            metavar="D",
            help="From SIGTERM to SIGKILL; at most ttl/3 (the smaller of 5s and ttl/4).",
        ),
        click.option(
            "--on-lost",
            type=click.Choice(on_lost),
            default="term",
            show_default=True,
            help="What happens to the command when the lock is lost.",
        ),
        click.option(
            "--ttl",
            type=DURATION,
            metavar="D",
            default=DEFAULT_TTL,
            help="How long the lock outlives a host that dies (30s).",
        ),
        click.option(
            "-E",
            "--conflict-exit-code",
            type=click.IntRange(0, 255),
            metavar="N",
            default=NOT_ACQUIRED,
            help="The exit code if the lock is not acquired (75).",
        ),
        click.option("-w", "--wait", type=DURATION, metavar="D", help="Wait that long for the lock; else for ever."),
        click.option("-n", "--nonblock", is_flag=True, help="Do not wait for the lock."),
    ):
        command = option(command)
    return common(command)


def _options_of_a_leader(command: F) -> F:
    return _options(command, ("term", "kill"))


@click.command(
    epilog=f"""{EXITS}
\b
Examples:
  holdtight run nightly -- ./job.sh
  holdtight run -w 5m --ttl 10s deploy -- make deploy
  holdtight run -n -E 0 nightly -- ./job.sh       succeed where it runs elsewhere
  holdtight run -s report -- ./read-only.sh       beside other readers
  holdtight run -n --at-least 23h nightly -- ./job.sh   once a night, whatever the clocks of the hosts say
"""
)
@click.option(
    "--at-least",
    type=DURATION,
    metavar="D",
    help="Skip it if it was started within this time; exit as if the lock was not acquired.",
)
@click.option("-s", "--shared", is_flag=True, help="Take a read lock: others with -s may run beside.")
@_options
@click.pass_context
def run(context: click.Context, /, name: str, shared: bool, at_least: float | None, **options: Any) -> int:
    """Run COMMAND while holding the lock NAME.

    The lock is renewed as long as the command runs. If renewals fail, or this program is paused or killed, the command
    is ended before another holder can have the lock; if the lock is taken away, as soon as that is known.
    HOLDTIGHT_NAME, HOLDTIGHT_OWNER and HOLDTIGHT_FENCE tell the command what it runs under.
    """

    if shared and at_least is not None:
        raise click.UsageError("--at-least is for a command that runs alone: it cannot go with -s", context)

    def lock_of(locks: Locks, **given: Any) -> Any:
        return locks.rwlock(name, **given).read() if shared else locks.lock(name, **given)

    return _under(context, name, lock_of, at_least=at_least, **options).status


@click.command(
    epilog=f"""{EXITS}
\b
Examples:
  holdtight sem -p 3 encode -- ./encode.sh film.mkv
  ls *.mkv | xargs -P 20 -I{{}} holdtight sem -p 3 encode -- ./encode.sh {{}}
"""
)
@click.option("-p", "--permits", type=click.IntRange(1), metavar="N", required=True, help="How many may run at a time.")
@_options
@click.pass_context
def sem(context: click.Context, /, name: str, permits: int, **options: Any) -> int:
    """Run COMMAND while holding one of N permits of the semaphore NAME."""

    def lock_of(locks: Locks, **given: Any) -> Any:
        return locks.semaphore(name, permits=permits, **given)

    return _under(context, name, lock_of, **options).status


@click.command(
    epilog=f"""{EXITS}
\b
Examples:
  holdtight lead poller -- ./poll.sh
  holdtight lead --ttl 10s --label 10.0.0.5:80 api -- ./serve.sh
"""
)
@click.option("--again", is_flag=True, hidden=True)
@_options_of_a_leader
@click.pass_context
def lead(context: click.Context, /, name: str, again: bool, **options: Any) -> int:
    """Run COMMAND while leading under NAME, and campaign again when the term was lost.

    The command gets SIGTERM when its term ends, which is --kill-after before the lease does, and SIGKILL when the lease
    ends. Then this program stands in line once more, and starts the command again when it leads. It ends with the
    command, if that ends by itself or by a signal to this program.
    """
    os.environ.pop(AGAIN, None)  # not for the command

    def lock_of(locks: Locks, **given: Any) -> Any:
        return locks.lock(name, **given)

    end = _under(context, name, lock_of, patient=again, **options)
    if end.lost:
        say(f"campaigning for {name!r} again")
        _begin_anew()
    return end.status


def _begin_anew() -> NoReturn:
    """This very program from its first line: a process that has threads cannot fork the next command safely."""
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, AGAIN: "1"})


class End(NamedTuple):
    status: int
    lost: bool = False
    """The command was ended because the lease was lost, and nobody else asked it to end."""


def _under(
    context: click.Context,
    name: str,
    lock_of: Callable[..., Any],
    *,
    command: tuple[str, ...],
    nonblock: bool,
    wait: float | None,
    conflict_exit_code: int,
    ttl: float,
    on_lost: str,
    kill_after: float | None,
    label: str | None,
    at_least: float | None = None,
    patient: bool = False,
) -> End:
    """With `patient`, it asks a server that cannot be reached again and again."""
    if not command[0]:
        raise click.UsageError("the command is empty: name a program after --", context)
    if kill_after is None:
        kill_after = min(5.0, ttl / 4)
    elif not 0 <= kill_after <= ttl / 3:
        raise click.UsageError(f"--kill-after must be at most a third of the ttl, {ttl / 3:g} s", context)
    if nonblock and wait is not None:
        raise click.UsageError("-n does not wait, and -w says how long to wait: give one of them", context)
    settings = of(context)
    terminal = Terminal()
    with settings.locks() as locks:  # opens no connection yet, and starts no thread
        try:
            options = {"ttl": ttl, "label": label or os.path.basename(command[0])}
            lock = lock_of(locks, wait=0 if nonblock else wait, **options)
            record = None
            if at_least is not None:
                from holdtight.cli.recorded import Recorded  # here: most runs have no record

                record = Recorded(locks, name, at_least, options, waits=not nonblock)
        except (TypeError, ValueError) as error:
            raise usage(error) from error
        child = Child(command, terminal)
        guardian = Guardian(wanted=on_lost != "warn")
        stopping = threading.Event()

        def ask() -> Lease:
            with context.scope(cleanup=False):  # `say` needs it, in this thread too
                if record is not None:
                    record.look()
                return _acquired(
                    locks, lock, name, stopping if patient else None, quiet=settings.quiet or settings.json
                )

        def stop() -> None:
            stopping.set()
            locks.close()

        with Signals() as signals:
            try:
                lease = signals.while_waiting(ask, stop)
                if record is not None:
                    record.begin(lease)
                signals.check(lease)
            except Ended as ended:
                _cancel(child, guardian)
                if record is not None:
                    record.take_back()
                if ended.lease is not None:
                    _given_back(ended.lease)
                locks.close()
                end_by(ended.number)
                raise
            except BaseException as error:
                _cancel(child, guardian)
                if not isinstance(error, LockError) or exit_code(error) != NOT_ACQUIRED:
                    raise
                say(text_of(error), error.code, exit_says=True)
                return End(conflict_exit_code)
            running = Running(
                lease,
                child,
                guardian,
                terminal,
                signals,
                ttl=ttl,
                on_lost=on_lost,
                kill_after=kill_after,
                say=say,
            )
            status = running(_environment(lease))
            if record is not None:
                record.end(command[0], status, started=running.started, lost=running.lost)
            return _released(lease, running, status, on_lost)


def _acquired(locks: Locks, lock: Any, name: str, stopping: threading.Event | None, *, quiet: bool) -> Lease:
    """With an event, it asks a server that cannot be reached again and again, until the event is set."""
    told = False
    while True:
        try:
            with _shown_while_waiting(locks, name, quiet=quiet):
                lease: Lease = lock.acquire()
            return lease
        except Unavailable as error:
            if stopping is None:
                raise
            if not told:
                say(f"campaigning on without the server: {error.message}", error.code)
            told = True
            if stopping.wait(PAUSE):
                raise


def _shown_while_waiting(locks: Locks, name: str, *, quiet: bool) -> AbstractContextManager[None]:
    if quiet or not sys.stderr.isatty():
        return nullcontext()
    from holdtight.cli.spinner import shown_while_waiting

    return shown_while_waiting(locks, name)


def _cancel(child: Child, guardian: Guardian) -> None:
    child.cancel()
    guardian.dismiss()


def _environment(lease: Lease) -> dict[str, str]:
    mine = {"HOLDTIGHT_NAME": lease.name, "HOLDTIGHT_OWNER": lease.owner}
    if not lease.degraded:
        mine["HOLDTIGHT_FENCE"] = str(lease.fence)
    return {**os.environ, **mine}


def _released(lease: Lease, running: Running, status: int, on_lost: str) -> End:
    """Gives the lock back. A lock that was not ours at the command's end is lost, whatever the command says."""
    lost = running.lost and not running.asked_to_end
    try:
        lease.release()
    except (LeaseLost, NotOwner) as error:
        if on_lost == "warn":
            return End(status)
        if not running.lost:
            say(text_of(error), error.code, exit_says=True)
        return End(LOST, lost)
    except LockError as error:
        say(NOT_GIVEN_BACK.format(error), error.code)
    return End(LOST, lost) if running.lost else End(status)


def _given_back(lease: Lease) -> None:
    try:
        lease.release()
    except LockError as error:
        say(NOT_GIVEN_BACK.format(error), error.code)
