"""The verbs, and the way from an exception to one line on stderr and an exit code."""

import json
import os
import sys
from collections.abc import Sequence

import click

from holdtight import LockError, __version__
from holdtight.cli.acting import audit, doctor, release
from holdtight.cli.exits import OURS, USAGE, exit_code
from holdtight.cli.listing import ls
from holdtight.cli.looking import explain, show, wait
from holdtight.cli.options import Common, common
from holdtight.cli.run import run, sem
from holdtight.cli.top import top

__all__ = ["run_cli"]


@click.group(
    context_settings={
        "auto_envvar_prefix": "HOLDTIGHT",
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
    epilog="""\b
Examples:
  holdtight run nightly -- ./job.sh        one host at a time runs the job
  holdtight run -n nightly -- ./job.sh     skip it where it runs elsewhere (exit 75)
  holdtight sem -p 3 encode -- ./encode.sh at most three at a time
""",
)
@click.version_option(__version__, prog_name="holdtight")
@common
def cli() -> None:
    """Distributed locks on Redis and Valkey."""


for _verb in (run, sem, ls, show, top, wait, release, audit, doctor, explain):
    cli.add_command(_verb)


def run_cli(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns the exit code."""
    settings = Common()
    try:
        answer = cli.main(arguments, prog_name="holdtight", standalone_mode=False, obj=settings)
        sys.stdout.flush()
        return answer if isinstance(answer, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return 130
    except (BrokenPipeError, SystemExit):  # nobody reads our output any more; click makes SystemExit of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at exit must not fail either
        return 0
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return USAGE
    except click.ClickException as error:
        hint = " (put -- before the command)" if isinstance(error, click.NoSuchOption) else ""
        return _failed(settings, "USAGE", error.format_message() + hint, USAGE)
    except LockError as error:
        return _failed(settings, error.code, str(error), exit_code(error), error)
    except (TypeError, ValueError) as error:
        return _failed(settings, "USAGE", str(error), USAGE, error)
    except Exception as error:
        return _failed(settings, "INTERNAL", f"{type(error).__name__}: {error}", OURS, error)


def _failed(settings: Common, code: str, text: str, status: int, error: Exception | None = None) -> int:
    text = " ".join(text.split())
    if settings.json:
        print(json.dumps({"error": code, "message": text}), file=sys.stderr)
    else:
        print(f"holdtight: {text}", file=sys.stderr)
    if settings.verbose and error is not None:
        import traceback

        traceback.print_exception(error)
    return status
