"""Options that every verb takes, at any place of the line, and the client that they describe."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdtight import Locks
from holdtight.base.clock import seconds

__all__ = ["DURATION", "Common", "common", "say", "usage"]

F = TypeVar("F", bound=Callable[..., Any])


class Duration(click.ParamType[float]):
    """`250ms`, `5s`, `2m`, `1h`, or a number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        try:
            return float(value)
        except ValueError:
            pass
        try:
            return seconds(value, param.name or "duration" if param else "duration")
        except (TypeError, ValueError):
            self.fail(f"{value!r} is no duration: give seconds, or 250ms, 5s, 2m, 1h", param, ctx)


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

    def locks(self, **options: Any) -> Locks:
        """The client. An URL or option that is not allowed is an error of usage."""
        if self.namespace is not None:
            options["namespace"] = self.namespace
        if self.timeout is not None:
            options["connect_timeout"] = self.timeout
        if self.verbose:
            import logging

            logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(message)s")
        urls = self.urls
        try:
            return Locks(urls[0] if len(urls) == 1 else urls, **options) if urls else Locks(**options)
        except (TypeError, ValueError) as error:
            raise usage(error) from error


def usage(error: object) -> click.UsageError:
    text = str(error)
    if "HOLDTIGHT_URL" in text:
        text = "no server: give --url, or set HOLDTIGHT_URL or REDIS_URL"
    return click.UsageError(text, click.get_current_context(silent=True))


def say(text: str) -> None:
    """One line for people, on stderr."""
    common = of(click.get_current_context())
    if not common.quiet:
        print(f"holdtight: {text}", file=sys.stderr, flush=True)


def of(context: click.Context) -> Common:
    return context.find_root().ensure_object(Common)


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(context: click.Context, param: click.Parameter, value: Any) -> None:
        if value not in (None, False, ()):
            setattr(of(context), name, value)

    return keep


def _add_urls(context: click.Context, param: click.Parameter, value: tuple[str, ...]) -> None:
    from_environment = context.get_parameter_source(param.name or "") is click.core.ParameterSource.ENVIRONMENT
    if value and not (from_environment and of(context).urls):
        of(context).urls = [url for each in value for url in each.split()]


def _read_urls(context: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    try:
        with open(value, encoding="utf-8") as file:
            of(context).urls = file.read().split()
    except (OSError, UnicodeError) as error:
        raise click.BadParameter(f"cannot read {value}: {error}", context, param) from error
    if not of(context).urls:
        raise click.BadParameter(f"{value} has no URL", context, param)


def common(command: F) -> F:
    """Adds the options of all verbs. They may stand before the verb and after it."""
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
            help="How long connecting may take (2s); an answer may take 2s more.",
        ),
        click.option(
            "--namespace",
            metavar="NS",
            expose_value=False,
            callback=_keep("namespace"),
            help="The prefix of all keys (ht).",
        ),
        click.option(
            "--url-file",
            metavar="FILE",
            expose_value=False,
            callback=_read_urls,
            is_eager=True,
            help="Read the URLs from a file, so that no password shows in `ps`.",
        ),
        click.option(
            "--url",
            metavar="URL",
            multiple=True,
            expose_value=False,
            callback=_add_urls,
            help="The server; several make a quorum. Else $HOLDTIGHT_URL, $REDIS_URL.",
        ),
    ):
        command = option(command)
    return command
