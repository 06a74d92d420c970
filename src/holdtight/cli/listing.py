"""`holdtight ls`."""

import sys

import click

from holdtight.cli.options import common, of
from holdtight.cli.printing import plain, print_json_array
from holdtight.cli.rows import COLUMNS, SORTS, Row, aligned, cell, row_of, table_of

__all__ = ["ls"]


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

    table = table_of(COLUMNS)
    for row in rows:
        table.add_row(*(cell(plain(text)) for text in row.texts()))
    Console(highlight=False).print(table)
