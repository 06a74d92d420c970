"""The command line: `holdtight run nightly -- ./job.sh`, and what people want to see of locks.

On top of everything; nothing imports it. It needs the extra `cli` (click; rich on a terminal).
"""

import sys

__all__ = ["main"]


def main() -> None:
    """The entry point `holdtight`."""
    try:
        import click
    except ImportError:
        sys.exit("holdtight: the command line needs an extra: pip install 'holdtight[cli]'")
    from holdtight.cli.main import run_cli

    del click
    sys.exit(run_cli())
