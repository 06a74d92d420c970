"""`holdtight run NAME -- COMMAND` and `holdtight sem`: a command under a lock."""

import os
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, TypeVar

import click

from holdtight import Lease, LeaseLost, LockError, Locks, LockTimeout, NotOwner
from holdtight.cli.child import Child, Guardian, Terminal
from holdtight.cli.exits import LOST, NOT_ACQUIRED
from holdtight.cli.listing import NAME
from holdtight.cli.options import DURATION, common, of, say, usage
from holdtight.cli.running import Ended, Running, Waiting, end_by

__all__ = ["run", "sem"]

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_TTL = 30.0
EXITS = """\b
Exit codes: the command's own, 128+n if signal n ended it, 126 and 127 if it cannot be started;
64 usage, 69 server not reached, 70 internal, 75 not acquired, 76 lost, 77 not permitted.
"""


def _options(command: F) -> F:
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
            type=click.Choice(["term", "kill", "warn"]),
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


@click.command(
    epilog=f"""{EXITS}
\b
Examples:
  holdtight run nightly -- ./job.sh
  holdtight run -w 5m --ttl 10s deploy -- make deploy
  holdtight run -n -E 0 nightly -- ./job.sh       succeed where it runs elsewhere
  holdtight run -s report -- ./read-only.sh       beside other readers
"""
)
@click.option("-s", "--shared", is_flag=True, help="Take a read lock: others with -s may run beside.")
@_options
@click.pass_context
def run(context: click.Context, /, name: str, shared: bool, **options: Any) -> int:
    """Run COMMAND while holding the lock NAME.

    The lock is renewed as long as the command runs. If it is lost, the command is ended before another holder can have
    the lock, also if this program is paused or killed meanwhile. HOLDTIGHT_NAME, HOLDTIGHT_OWNER and HOLDTIGHT_FENCE
    tell the command what it runs under.
    """

    def lock_of(locks: Locks, **given: Any) -> Any:
        return locks.rwlock(name, **given).read() if shared else locks.lock(name, **given)

    return _under(context, name, lock_of, **options)


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

    return _under(context, name, lock_of, **options)


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
) -> int:
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
            lock = lock_of(locks, ttl=ttl, wait=0 if nonblock else wait, label=label or PurePath(command[0]).name)
        except (TypeError, ValueError) as error:
            raise usage(error) from error
        child = Child(command, terminal)
        guardian = Guardian(wanted=on_lost != "warn")
        try:
            with Waiting():
                lease = _acquired(locks, lock, name, quiet=settings.quiet)
        except Ended as ended:
            _cancel(child, guardian)
            locks.close()
            end_by(ended.number)
            raise
        except LockTimeout as error:
            _cancel(child, guardian)
            if settings.json or conflict_exit_code == NOT_ACQUIRED:
                raise
            say(str(error))
            return conflict_exit_code
        except BaseException:
            _cancel(child, guardian)
            raise
        running = Running(lease, child, guardian, terminal, ttl=ttl, on_lost=on_lost, kill_after=kill_after, say=say)
        status = running(_environment(lease))
        return _released(lease, running, status, on_lost)


def _acquired(locks: Locks, lock: Any, name: str, *, quiet: bool) -> Lease:
    from holdtight.cli.spinner import shown_while_waiting

    with shown_while_waiting(locks, name, quiet=quiet):
        lease: Lease = lock.acquire()
    return lease


def _cancel(child: Child, guardian: Guardian) -> None:
    child.cancel()
    guardian.dismiss()


def _environment(lease: Lease) -> dict[str, str]:
    mine = {"HOLDTIGHT_NAME": lease.name, "HOLDTIGHT_OWNER": lease.owner}
    if not lease.degraded:
        mine["HOLDTIGHT_FENCE"] = str(lease.fence)
    return {**os.environ, **mine}


def _released(lease: Lease, running: Running, status: int, on_lost: str) -> int:
    """Gives the lock back. A lock that was not ours at the command's end is lost, whatever the command says."""
    try:
        lease.release()
    except (LeaseLost, NotOwner) as error:
        if on_lost == "warn":
            return status
        if not running.lost:
            say(" ".join(str(error).split()))
        return LOST
    except LockError as error:
        say(f"the lock was not given back, and ends with its ttl: {error}")
    return LOST if running.lost else status
