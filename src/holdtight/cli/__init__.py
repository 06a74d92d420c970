"""The command line: `holdtight run nightly -- ./job.sh`, and what people want to see of locks.

On top of everything but `__main__`; nothing else imports it. It needs the extra `cli` (click; rich on a terminal).
"""

import sys

__all__ = ["main"]


def main() -> None:
    """The entry point `holdtight`."""
    try:
        from holdtight.cli.main import run_cli
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit("holdtight: the command line needs an extra: pip install 'holdtight[cli]'")
    sys.exit(run_cli())
