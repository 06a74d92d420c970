"""Options that every verb takes, at any place of the line, and the client that they describe."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdtight import LockError, Locks
from holdtight.base.clock import seconds
from holdtight.base.error_texts import pointed
from holdtight.cli.printing import plain, print_json

__all__ = ["DURATION", "Common", "Duration", "common", "of", "say", "tell", "text_of", "usage"]

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:
    _DurationType = click.ParamType[float]
else:
    _DurationType = click.ParamType  # before click 8.4 it takes no type argument


class Duration(_DurationType):
    """`250ms`, `5s`, `2m`, `1h`, or a number of seconds, from `least` to `most`."""

    name = "duration"

    def __init__(self, least: float = 0.0, most: float | None = None) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: Any = value
        with suppress(ValueError):
            number = float(value)
        try:
            found = seconds(number, "duration")  # neither NaN, nor infinite, nor negative
        except (TypeError, ValueError):
            self.fail(f"{value!r} is no duration: give seconds, or 250ms, 5s, 2m, 1h", param, ctx)
        if found < self._least or (self._most is not None and found > self._most):
            limit = f"at most {self._most:g} s" if found > self._least else f"at least {self._least:g} s"
            self.fail(f"{value!r} is out of range: give {limit}", param, ctx)
        return found


DURATION = Duration()


class Common:
    """What the options of all verbs say."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self.namespace: str | None = None
        self.timeout: float | None = None
        self.json = False
        self.quiet = False
        self.verbose = False
        self.typed: set[str] = set()
        """The options of the command line: no variable of the environment overrides them."""

    @property
    def arguments(self) -> dict[str, Any]:
        """What the client is made with."""
        given = {
            "target": self.urls[0] if len(self.urls) == 1 else self.urls or None,
            "namespace": self.namespace,
            "connect_timeout": self.timeout,
        }
        return {word: value for word, value in given.items() if value is not None}

    def locks(self) -> Locks:
        """The client. An URL or option that is not allowed is an error of usage."""
        if self.verbose:
            import logging

            logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(message)s")
        try:
            return Locks(**self.arguments)
        except (TypeError, ValueError) as error:
            raise usage(error) from error


def usage(error: object) -> click.UsageError:
    text = str(error)
    if "HOLDTIGHT_URL" in text:
        text = "no server: give --url, or set HOLDTIGHT_URL or REDIS_URL"
    return click.UsageError(text, click.get_current_context(silent=True))


def say(text: str, error: str | None = None, *, exit_says: bool = False) -> None:
    """One line on stderr. With --json it is an object, that of an error if it has a code. -q leaves out what the exit
    code says as well."""
    common = of(click.get_current_context())
    if not (common.quiet and exit_says):
        tell(text, error, as_json=common.json)


def text_of(error: Exception) -> str:
    """What `str(error)` says, but with names as they are: click finds an encoding that the terminal takes."""
    return pointed(error.message, error.code) if isinstance(error, LockError) else str(error)


def tell(text: str, error: str | None, *, as_json: bool) -> None:
    """One line on stderr, also with -q. If nobody can read it, the caller goes on: its command runs under a lock."""
    line = " ".join(text.split())
    with suppress(OSError):
        if as_json:
            print_json({"error": error, "message": line} if error else {"message": line}, err=True)
        else:
            click.echo(f"holdtight: {plain(line)}", err=True)


def of(context: click.Context) -> Common:
    return context.find_root().ensure_object(Common)


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(context: click.Context, param: click.Parameter, value: Any) -> None:
        if _counts(context, param, name):
            setattr(of(context), name, value)

    return keep


def _counts(context: click.Context, param: click.Parameter, name: str) -> bool:
    """Whether the option was given here. A variable counts for less than an option of the command line, and
    HOLDTIGHT_LS_URL, which is looked at later, for more than HOLDTIGHT_URL."""
    typed = of(context).typed
    source = context.get_parameter_source(param.name or "")
    if source is click.core.ParameterSource.COMMANDLINE:
        typed.add(name)
        return True
    return source is click.core.ParameterSource.ENVIRONMENT and name not in typed


def _add_urls(context: click.Context, param: click.Parameter, value: tuple[str, ...]) -> None:
    if _counts(context, param, "urls"):
        of(context).urls = [url for each in value for url in each.split()]


def _read_urls(context: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is None or not _counts(context, param, "urls"):
        return
    try:
        with open(value, encoding="utf-8") as file:
            of(context).urls = file.read().split()
    except (OSError, UnicodeError) as error:
        raise click.BadParameter(f"cannot read {value}: {error}", context, param) from error
    if not of(context).urls:
        raise click.BadParameter(f"{value} has no URL", context, param)


def common(command: F, *, target: str = "The server; several make a quorum.", connects: bool = True) -> F:
    """Adds the options of all verbs. They may stand before the verb and after it. `target` is the help of --url. The
    help of a verb that connects to nothing leaves out what is about the connection."""
    for option in (
        click.option(
            "-v",
            "--verbose",
            is_flag=True,
            expose_value=False,
            callback=_keep("verbose"),
            help="Log to stderr; show where an error came from.",
        ),
        click.option(
            "-q",
            "--quiet",
            is_flag=True,
            expose_value=False,
            callback=_keep("quiet"),
            help="Say nothing that the exit code says.",
        ),
        click.option(
            "--json",
            is_flag=True,
            expose_value=False,
            callback=_keep("json"),
            help="Print JSON; errors too, on stderr.",
        ),
        click.option(
            "--timeout",
            type=DURATION,
            metavar="D",
            expose_value=False,
            callback=_keep("timeout"),
            hidden=not connects,
            help="How long connecting may take (2s); an answer may take 2s more.",
        ),
        click.option(
            "--namespace",
            metavar="NS",
            expose_value=False,
            callback=_keep("namespace"),
            hidden=not connects,
            help="The prefix of all keys (ht).",
        ),
        click.option(
            "--url-file",
            metavar="FILE",
            expose_value=False,
            callback=_read_urls,
            hidden=not connects,
            help="Read the URLs from a file, so that no password shows in `ps`.",
        ),
        click.option(
            "--url",
            metavar="URL",
            multiple=True,
            expose_value=False,
            callback=_add_urls,
            hidden=not connects,
            help=f"{target} Else $HOLDTIGHT_URL, $REDIS_URL.",
        ),
    ):
        command = option(command)
    return command
