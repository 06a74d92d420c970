"""The verbs, and the way from an exception to one line on stderr and an exit code."""

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from holdtight import LockError, __version__
from holdtight.cli.exits import LOST, NOT_ACQUIRED, OURS, USAGE, exit_code
from holdtight.cli.options import Common, common, tell, text_of

__all__ = ["run_cli"]


_VERBS = {
    "run": ("run", "Run a command while holding a lock."),
    "sem": ("run", "Run a command while holding a permit of a semaphore."),
    "lead": ("run", "Run a command on one host; the next takes over."),
    "ls": ("listing", "List locks that are held or waited for."),
    "show": ("looking", "Show who holds a lock, and who waits for it."),
    "top": ("top", "Watch locks that are held or waited for."),
    "wait": ("looking", "Wait until a lock is free, or held, without taking it."),
    "release": ("acting", "Take a lock away from a holder that hangs."),
    "audit": ("acting", "Show what operators did, newest first."),
    "doctor": ("acting", "Look for settings of the server that harm locks."),
    "bench": ("bench", "Measure how fast locks are here."),
    "demo": ("demo", "Show what a lock is good for, in ten seconds."),
    "serve": ("serve", "Serve locks over HTTP, and a page that shows them."),
    "token": ("serve", "Make a token for the lock service."),
    "explain": ("looking", "Say what an error means and what to do about it."),
}
"""Each verb with its module, which is loaded when the verb is asked for (`run` should start soon), and its short help:
click would cut the first sentence of the long one."""


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        module, short = _VERBS[cmd_name]
        command: click.Command = getattr(import_module(f"holdtight.cli.{module}"), cmd_name)
        command.short_help = short
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _VERBS and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(args[0], _VERBS, 1)
            meant = f"Did you mean {near[0]!r}?" if near else "See: holdtight --help"
            ctx.fail(f"No such command {args[0]!r}. {meant}")
        return super().resolve_command(ctx, args)


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
  holdtight lead poller -- ./poll.sh       one host runs it, another takes over when that ends
""",
)
@click.version_option(__version__, prog_name="holdtight")
@common
def cli() -> None:
    """Distributed locks on Redis and Valkey.

    Name the server with --url or $HOLDTIGHT_URL. D is a duration: 250ms, 5s, 2m, 1h, or a number of seconds.
    """


def run_cli(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns the exit code."""
    settings = Common()
    out: Any = sys.stdout
    if isinstance(out, io.TextIOWrapper) and out.errors == "strict":
        out.reconfigure(errors="backslashreplace")  # a terminal that knows ASCII only, and a name beyond it
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
        with suppress(OSError):
            print(error.format_message(), file=sys.stderr)
        return USAGE
    except click.ClickException as error:
        words = sys.argv[1:] if arguments is None else arguments  # click has not read the whole line
        settings.json = settings.json or "--json" in words[: words.index("--") if "--" in words else None]
        return _failed(settings, "USAGE", error.format_message() + _hint(error), USAGE)
    except LockError as error:
        return _failed(settings, error.code, text_of(error), exit_code(error), error)
    except (TypeError, ValueError) as error:
        return _failed(settings, "USAGE", str(error), USAGE, error)
    except Exception as error:
        return _failed(settings, "INTERNAL", f"{type(error).__name__}: {error}", OURS, error)
    finally:
        _forget_what_nobody_reads()


def _forget_what_nobody_reads() -> None:
    """Else the flush of stderr at exit fails as well, and Python makes 120 of the exit code."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _hint(error: click.ClickException) -> str:
    """What to do next, if the message does not say it."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return ""
    runs = any(param.name == "command" for param in context.command.params)
    if isinstance(error, click.NoSuchOption) and runs:
        return " (put -- before the command)"
    if isinstance(error, click.MissingParameter) and error.param is not None and error.param.name == "command":
        verb = "sem -p 3" if context.info_name == "sem" else context.info_name
        return f" As in: holdtight {verb} nightly -- ./job.sh"
    unclear = isinstance(error, click.NoSuchOption | click.MissingParameter) or "unexpected extra" in error.message
    return f" See: {context.command_path} --help" if unclear else ""


def _failed(settings: Common, code: str, text: str, status: int, error: Exception | None = None) -> int:
    if not (settings.quiet and status in (NOT_ACQUIRED, LOST)):  # -q: what the exit code says
        tell(text, code, as_json=settings.json)
    if settings.verbose and error is not None:
        import traceback

        with suppress(OSError):
            traceback.print_exception(error)
    return status
