"""Verbs of the lock service: `serve` and `token`."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from holdtight.cli.options import common, of, usage
from holdtight.cli.printing import print_json

__all__ = ["serve", "token"]

_FLAGS = ("bind", "tokens", "reuse_port", "tls_cert", "tls_key", "trust_proxy", "open")


@click.command(
    epilog="""\b
Examples:
  holdtight serve --url redis://localhost               look from this machine
  holdtight serve --open                                this machine may do all
  holdtight serve --bind 0.0.0.0:7379 --tokens tokens.toml
"""
)
@click.option("--bind", metavar="ADDR", help="Listen there (127.0.0.1:7379).")
@click.option("--tokens", metavar="FILE", help="Who may come in: see `holdtight token`. SIGHUP reads it anew.")
@click.option("--config", metavar="FILE", help="TOML with these options; flags and $HOLDTIGHT_SERVE_* count for more.")
@click.option("--reuse-port", is_flag=True, default=None, help="Share the port with other instances.")
@click.option("--tls-cert", metavar="FILE", help="Serve https with this certificate.")
@click.option("--tls-key", metavar="FILE", help="Its key.")
@click.option("--trust-proxy", metavar="IPS", help="Believe X-Forwarded-For and -Proto of these addresses.")
@click.option("--open", is_flag=True, default=None, help="Without tokens: callers of this machine may do all.")
@partial(common, target="The server, or the Sentinels of one.")
@click.pass_context
def serve(context: click.Context, /, config: str | None, **given: Any) -> int:
    """Serve locks over HTTP, and a page that shows them.

    Starts also while the lock server is away: /readyz tells. SIGTERM ends it; those who wait ask another instance.
    """
    try:
        from holdtight.server.serving import Settings
        from holdtight.server.serving import serve as run
    except ModuleNotFoundError as error:
        from holdtight.base.refusals import missing_extra

        raise click.UsageError(str(missing_extra("server", error)), context) from error
    options = of(context)
    found = _read(config) if config is not None else {}
    found.update({name: value for name, value in given.items() if value is not None})
    if options.urls and _counts_more(context, found, "url", "urls", "url_file"):
        if len(options.urls) > 1:
            raise click.UsageError("the lock service cannot run on a quorum: give one --url", context)
        found["url"] = options.urls[0]
    if options.namespace is not None and _counts_more(context, found, "namespace", "namespace"):
        found["namespace"] = options.namespace
    if options.timeout is not None:
        found["timeout"] = options.timeout
    try:
        run(Settings(**found))
    except (TypeError, ValueError) as error:
        raise usage(error) from error
    return 0


def _counts_more(context: click.Context, found: dict[str, Any], key: str, name: str, *others: str) -> bool:
    """Whether an option that all verbs have counts for more than the file. HOLDTIGHT_URL and HOLDTIGHT_NAMESPACE are
    for all verbs, and the file is for this one: they count for less."""
    if key not in found or name in of(context).typed:
        return True
    ours = click.core.ParameterSource.ENVIRONMENT  # HOLDTIGHT_SERVE_URL, and so on
    return any(context.get_parameter_source(each) is ours for each in (key, *others))


def _read(path: str) -> dict[str, Any]:
    import tomllib

    try:
        found = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise click.UsageError(f"the config {path} cannot be read: {error}") from error
    for name, value in found.items():
        if name not in (*_FLAGS, "url", "namespace"):
            raise click.UsageError(f"the config {path} has an unknown key {name!r}: remove it")
        expected, said = (bool, "true or false") if name in ("reuse_port", "open") else (str, "a text in quotes")
        if not isinstance(value, expected):
            raise click.UsageError(f"the config {path}: {name} must be {said}")
    return found


@click.command(epilog="\b\nExamples:\n  holdtight token ci --role lock --prefix ci: --file tokens.toml")
@click.option("--role", type=click.Choice(["read", "lock", "admin"]), required=True, help="What the token may do.")
@click.option("--prefix", metavar="P", multiple=True, help="Only names that start with it; repeatable.")
@click.option("--file", metavar="F", required=True, help="The token file; made if need be.")
@click.argument("name")
@partial(common, connects=False)
def token(name: str, role: str, prefix: tuple[str, ...], file: str) -> int:
    """Make a token called NAME, and print it once: the file keeps its hash only."""
    from holdtight.server.tokens import add_token

    try:
        made = add_token(Path(file), name, role, prefix)
    except (OSError, ValueError) as error:
        raise usage(error) from error
    if of(click.get_current_context()).json:
        print_json({"name": name, "role": role, "prefixes": list(prefix), "token": made})
    else:
        click.echo(made)
    return 0
