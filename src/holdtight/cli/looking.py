"""Verbs that look at locks: `show`, `wait`, `explain`."""

import time

import click

from holdtight import LockInfo, Locks, LockTimeout
from holdtight.cli.exits import NOT_ACQUIRED
from holdtight.cli.graph import graph as lines_of
from holdtight.cli.names import NAME
from holdtight.cli.options import DURATION, common, of, say
from holdtight.cli.printing import plain, plain_lines, print_json

__all__ = ["explain", "show", "wait"]

LOOK_EVERY = 0.2


@click.command(
    epilog="""\b
Examples:
  holdtight show order:42
  holdtight show --graph order:42
  holdtight show --json order:42 | jq .holders
"""
)
@click.option("--graph", is_flag=True, help="Follow what its holders wait for, lock by lock.")
@click.argument("name", type=NAME)
@common
@click.pass_context
def show(context: click.Context, /, name: str, graph: bool) -> None:
    """Show who holds the lock NAME, and who waits for it."""
    settings = of(context)
    with settings.locks() as locks:
        info = locks.inspect(name)
        if settings.json:
            print_json(info.as_dict())
        elif graph:
            for line in lines_of(info, locks.inspect):
                click.echo(plain(line))
        else:
            click.echo(plain_lines(str(info)))


@click.command(
    epilog="\b\nExamples:\n  holdtight wait nightly && ./after-the-job.sh\n  holdtight wait -w 10s --until held nightly"
)
@click.option("--until", type=click.Choice(["free", "held"]), default="free", show_default=True, help="Wait for that.")
@click.option("-w", "--wait", type=DURATION, metavar="D", help="Wait that long; else for ever.")
@click.argument("name", type=NAME)
@common
@click.pass_context
def wait(context: click.Context, /, name: str, until: str, wait: float | None) -> int:
    """Wait until the lock NAME is free, or held, without taking it.

    It may be taken again at the next moment: use `run` for work that must not run twice. Exit code 75 if the time is
    over.
    """
    with of(context).locks() as locks:
        if _becomes(locks, name, wait, held=until == "held"):
            return 0
    say(f"{name!r} is not {until} after {wait:g} s", LockTimeout.code, exit_says=True)
    return NOT_ACQUIRED


def _becomes(locks: Locks, name: str, limit: float | None, *, held: bool) -> bool:
    """Looks a few times a second: looking costs the server little, and puts nobody in line."""
    end = None if limit is None else time.monotonic() + limit
    while True:
        info: LockInfo = locks.inspect(name)
        if info.locked == held:
            return True
        pause = LOOK_EVERY if end is None else min(LOOK_EVERY, end - time.monotonic())
        if pause <= 0:
            return False
        time.sleep(pause)


@click.command(epilog="\b\nExamples:\n  holdtight explain\n  holdtight explain LOCK_TIMEOUT")
@click.argument("code", required=False)
@common
def explain(code: str | None) -> None:
    """Say what the error CODE means and what to do about it; without CODE, list them all."""
    from holdtight.explain import docs, table

    click.echo(table() if code is None else docs(code), nl=False)
