"""The verbs, and the way from an exception to one line on stderr and an exit code."""

import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from holdtight import LockError, __version__
from holdtight.cli.exits import OURS, USAGE, exit_code
from holdtight.cli.options import Common, common

__all__ = ["run_cli"]


_VERBS = {
    "run": "run",
    "sem": "run",
    "ls": "listing",
    "show": "looking",
    "top": "top",
    "wait": "looking",
    "release": "acting",
    "audit": "acting",
    "doctor": "acting",
    "bench": "bench",
    "demo": "demo",
    "serve": "serve",
    "token": "serve",
    "explain": "looking",
}
"""Each verb and its module, which is loaded when the verb is asked for: `run` should start soon."""


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        command: click.Command = getattr(import_module(f"holdtight.cli.{_VERBS[cmd_name]}"), cmd_name)
        return command


@click.group(
    cls=_Verbs,
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
