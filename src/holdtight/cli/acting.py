"""Verbs of operators: `release --force`, `audit`, `doctor`."""

import time
from typing import Any

import click

from holdtight import AuditRecord, Finding, Severity
from holdtight.cli.exits import UNAVAILABLE
from holdtight.cli.names import NAME
from holdtight.cli.options import common, of, say
from holdtight.cli.printing import plain, print_json, print_json_array
from holdtight.cli.rows import aligned, holder_text

__all__ = ["audit", "doctor", "release"]

FOUND = NOTHING_HELD = 1
_UNREACHED = ("UNREACHABLE", "REFUSED")


@click.command(
    epilog="""\b
Examples:
  holdtight release nightly --force --reason "hangs since 4:12"
  holdtight release encode --force --reason "dead host" --owner KIwf8Qm...
"""
)
@click.option("--owner", metavar="ID", help="Take it from this holder only, as `show` prints it.")
@click.option("--by", metavar="WHO", help="The operator's name (user@host).")
@click.option("--reason", metavar="TEXT", required=True, help="Why; it is kept, see `audit`.")
@click.option("--force", is_flag=True, required=True, help="You know that the holder goes on until it looks.")
@click.argument("name", type=NAME)
@common
@click.pass_context
def release(context: click.Context, /, name: str, force: bool, reason: str, by: str | None, owner: str | None) -> int:
    """Take the lock NAME away from its holders, and give it to the next in line.

    The holders learn of it, but work that does not look goes on. Shut it out at the resource with the fence that this
    prints. Exit code 1 if nothing is held.
    """
    if not force:
        raise click.UsageError("--force is needed: the holder may go on working", context)
    settings = of(context)
    with settings.locks() as locks:
        record = locks.force_release(name, reason=reason, by=by, owner=owner)
    if record is None:
        if settings.json:
            print_json(None)
        say(f"{name!r} is not held" + (" by this owner" if owner else ""), "NOT_HELD", exit_says=True)
        return NOTHING_HELD
    if settings.json:
        print_json(record.as_dict())
        return 0
    who = ", ".join(holder_text(holder) + (f" ({holder.label})" if holder.label else "") for holder in record.holders)
    after = f"the next holder is {record.next}" if record.next else "nobody waits for it"
    click.echo(
        plain(f"{name!r} was taken from {who}; {after}. Fence {record.fence} is yours to claim at the resource.")
    )
    return 0


@click.command(epilog="\b\nExamples:\n  holdtight audit\n  holdtight audit -n 10 --name nightly")
@click.option("--name", type=NAME, metavar="NAME", help="Of this lock only.")
@click.option("-n", "--limit", type=click.IntRange(1), default=100, show_default=True, metavar="N", help="How many.")
@common
@click.pass_context
def audit(context: click.Context, /, limit: int, name: str | None) -> None:
    """Show what operators did, newest first."""
    settings = of(context)
    with settings.locks() as locks:
        records = locks.audit(limit, name=name)
    if settings.json:
        print_json_array(record.as_dict() for record in records)
        return
    for line in aligned([("AT", "ACTION", "NAME", "TAKEN FROM", "BY", "REASON"), *map(_texts, records)]):
        click.echo(line)


def _texts(record: AuditRecord) -> tuple[str, ...]:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.at))
    who = ", ".join(map(holder_text, record.holders))
    return tuple(plain(text) for text in (at, record.action, record.name, who, record.by, record.reason))


@click.command(epilog="\b\nExamples:\n  holdtight doctor\n  holdtight doctor --fail-on error && ./deploy.sh")
@click.option(
    "--bless", is_flag=True, help="Of a quorum: no lease was held when the nodes last started; let them vote."
)
@click.option("--fail-on", type=click.Choice(["warning", "error"]), default="warning", show_default=True,
              help="The exit code is 1 for this and worse.")  # fmt: skip
@common
@click.pass_context
def doctor(context: click.Context, /, fail_on: str, bless: bool) -> int:
    """Examine the server, or each node of a quorum, for what endangers locks.

    Exit code 0 if all is well, 1 for findings, 69 if no server was reached.
    """
    settings = of(context)
    with settings.locks() as locks:
        if bless:
            for node, outcome in locks.bless().items():
                say(f"{node}: {outcome}")
        findings = locks.doctor()
        servers = _servers(locks.place)
    if settings.json:
        print_json_array(finding.as_dict() for finding in findings)
    else:
        _print(findings)
    if len({finding.node for finding in findings if finding.id in _UNREACHED}) >= servers:
        return UNAVAILABLE
    bad = {Severity.ERROR} if fail_on == "error" else {Severity.ERROR, Severity.WARNING}
    return FOUND if any(finding.severity in bad for finding in findings) else 0


def _servers(place: Any) -> int:
    """How many servers `doctor` looks at: the nodes of a quorum, the masters of a cluster, else one."""
    masters = getattr(place, "masters", None)
    return max(1, len(getattr(place, "names", None) or (masters() if masters else ())))


def _print(findings: list[Finding]) -> None:
    if not findings:
        click.echo("nothing found: all is well")
    for finding in findings:
        where = f" at {finding.node}" if finding.node else ""
        click.echo(plain(f"{finding.severity.value.upper()} {finding.id}{where}"))
        for title, text in (("seen", finding.seen), ("means", finding.means), ("change", finding.change)):
            click.echo(plain(f"  {title + ':':<8} {text}"))
