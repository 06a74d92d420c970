"""`holdtight ls`, and what completes a name on the shell's line."""

import sys
from typing import TYPE_CHECKING

import click

from holdtight import LockError
from holdtight.cli.options import common, of
from holdtight.cli.printing import plain, print_json_array
from holdtight.cli.rows import COLUMNS, SORTS, Row, aligned, row_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["NAME", "ls"]

COMPLETE_SECONDS = 0.3
MOST_COMPLETIONS = 100


class _Name(click.ParamType[str]):
    """The name of a lock, completed from those that are in use."""

    name = "name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        if any(sign in incomplete for sign in "*?["):
            return []
        try:
            settings = of(ctx)
            settings.timeout = COMPLETE_SECONDS
            with settings.locks() as locks:
                found = [
                    info.name for info, _ in zip(locks.list(f"{incomplete}*"), range(MOST_COMPLETIONS), strict=False)
                ]
        except (LockError, click.ClickException, TypeError, ValueError):
            return []
        return [CompletionItem(name) for name in sorted(found)]


NAME = _Name()


@click.command(
    epilog="\b\nExamples:\n  holdtight ls\n  holdtight ls 'order:*' --sort age\n  holdtight ls --json | jq '.[].name'"
)
@click.option("--sort", type=click.Choice(list(SORTS)), default="name", show_default=True, help="In which order.")
@click.argument("pattern", default="*")
@common
@click.pass_context
def ls(context: click.Context, /, pattern: str, sort: str) -> None:
    """List the locks that are held or waited for; PATTERN as in the shell, '*' for all."""
    settings = of(context)
    with settings.locks() as locks:
        if settings.json:
            print_json_array(info.as_dict() for info in locks.list(pattern))
            return
        rows = sorted((row_of(info) for info in locks.list(pattern)), key=SORTS[sort])
    if sys.stdout.isatty():
        _show(rows)
    else:
        for line in aligned([COLUMNS, *([plain(text) for text in row.texts()] for row in rows)]):
            click.echo(line)


def _show(rows: list[Row]) -> None:
    """On a terminal: as wide as that is, long names cut."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        right = column in ("AGE", "LEFT", "QUEUE")
        table.add_column(column, no_wrap=True, justify="right" if right else "left", overflow="ellipsis")
    for row in rows:
        table.add_row(*(Text(plain(text)) for text in row.texts()))
    Console(highlight=False).print(table)
