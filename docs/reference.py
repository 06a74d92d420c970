"""Writes docs/reference.md from the docstrings: `make docs`. tests/docs/test_reference.py says when it is stale."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import holdtight
from holdtight import embedded, errors, events, fencing, history, metrics, testing, tracing, tuning
from holdtight.config import url

PAGE = Path(__file__).with_name("reference.md")
INTRODUCTION = """\
# Reference

Made from the docstrings by `make docs`: edit those. Every example runs in the tests; in them, `locks` is
`Locks("memory://")`. `AsyncLocks` and its locks and leases have the same methods: those that talk to a server are
awaited, blocks are `async with`. In examples of guards, `conn` is a connection of `sqlite3` to a database with a table
`sku`, and `dsn` what psycopg connects to; `client` is a client of redis-py and `url` its server, with a key `stock:1`.

Durations are seconds as a number, a `timedelta`, or a text: `"250ms"`, `"5s"`, `"2m"`, `"1h"` (`holdtight.Duration`).
"""
TARGETS = """\
## Targets

| target | meaning |
| --- | --- |
| none | `$HOLDTIGHT_URL`, then `$REDIS_URL`; without either, ValueError |
| `redis://user:password@host:6379/0`, `valkey://…` | one server |
| `rediss://…`, `valkeys://…` | one server with TLS; `?ssl_ca_certs=…&ssl_certfile=…&ssl_keyfile=…` |
| `unix:///run/redis.sock?db=0` | one server on a Unix socket |
| `embedded://` | one Valkey server for all processes of this user on this machine (`holdtight[embedded]`) |
| `memory://`, `memory://name` | this process only, one store per name |
| `redis+sentinel://h1:26379,h2:26379/mymaster/0` | the master that Sentinel names; also `rediss+…` and so on |
| `redis+cluster://h1:7000,h2:7000` | a cluster, which is asked at these hosts first; also `rediss+…` and so on |
| a list or tuple of single servers | a quorum of independent servers |
| a `redis.Redis`, `redis.asyncio.Redis` | its settings are read; its connections are not used |
| what `Sentinel(…).master_for(…)` returns | the same master, followed through failovers |
| a `RedisCluster` | the same cluster |
| the twins of these in valkey-py | the same |

[docs/topologies.md](topologies.md) says what each of them promises.

### Parameters of a URL

After `?`, joined by `&`, percent-encoded: `rediss://db.example:6379/0?ssl_ca_certs=/etc/ca.pem&client_name=shop`. In a
URL of several hosts they hold for all of them. Those that begin with `ssl_` need a URL with TLS; `tls=` replaces them.

| parameter | meaning |
| --- | --- |
| `db` | the number of the database, where the path has none. Default 0. |
| `username`, `password` | the login, where the URL has none before its host. Default: no login. |
| `client_name` | the name of the connections in CLIENT LIST, in printable ASCII. Default: with pid and thread. |
| `protocol` | 2 or 3: the newest version of the protocol to speak. Default 3; servers that know only 2 get that. |
| `ssl_ca_certs`, `ssl_ca_path`, `ssl_ca_data` | file, folder or text of authorities to trust. Default: the system's. |
| `ssl_certfile`, `ssl_keyfile`, `ssl_password` | the client's certificate, its key, its password. Default: none. |
| `ssl_cert_reqs` | whether the server's certificate is checked: `required`, `optional` or `none`. Default `required`. |
| `ssl_check_hostname` | whether that certificate must be for the host of the URL: `true` or `false`. Default `true`. |
| `ssl_min_version` | the oldest version allowed: `TLSv1.2` or `TLSv1.3`. Default: that of Python's `ssl`. |
| `ssl_ciphers` | the ciphers allowed, as OpenSSL lists them. Default: those of Python's `ssl`. |
| `ssl_include_verify_flags`, `ssl_exclude_verify_flags` | names of `ssl.VerifyFlags` to set, to clear. Default: none. |

Without effect, because URLs of other clients have them: IGNORED. Any other parameter is a ValueError.
""".replace("IGNORED", ", ".join(f"`{each}`" for each in sorted(url.IGNORED)))

OPTIONS_OF_LOCKS = "The options are those of `Locks`; `max_connections` and `spin` have no effect.\n\n"


def paragraphs(text: str) -> str:
    """A docstring as Markdown: options become a table, examples become code."""
    head, mark, example = text.partition("Example:\n")
    parts: list[str] = []
    for block in re.split(r"\n\s*\n", head.strip("\n")):
        if block.startswith("Options:"):
            entries = re.split(r"\n(?=    \S)", block.removeprefix("Options:").strip("\n"))
            rows = [" ".join(entry.split()).partition(": ") for entry in entries]
            cells = [(word, said.replace("|", "\\|")) for word, _, said in rows]
            parts.append("| option | meaning |\n| --- | --- |\n" + "\n".join(f"| `{a}` | {b} |" for a, b in cells))
        else:
            parts.append(" ".join(block.split()))
    if mark:
        parts.append("```pycon\n" + textwrap.dedent(example).strip("\n") + "\n```")
    return "\n\n".join(part for part in parts if part)


def said(of: Any) -> str:
    return paragraphs(inspect.getdoc(of) or "")


def signature(of: Any) -> str:
    """The parameters as a user writes them."""
    words: list[str] = []
    starred = False
    for each in inspect.signature(of).parameters.values():
        if each.name in ("self", "unknown"):
            continue
        if each.kind is each.VAR_KEYWORD:
            words.append("…")
            continue
        if each.kind is each.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        if each.kind is each.VAR_POSITIONAL:
            words.append(f"*{each.name}")
            starred = True
        elif each.default is each.empty:
            words.append(each.name)
        else:
            default = "…" if repr(each.default) == "…" else repr(each.default)
            words.append(f"{each.name}={default}")
    return f"({', '.join(words)})"


def members(cls: Any, names: tuple[str, ...], of: str) -> Iterator[str]:
    for name in sorted(names):
        found = inspect.getattr_static(cls, name, None)
        if found is None:
            continue
        if isinstance(found, property):
            yield f"### `{of}.{name}`\n\n{said(found)}"
        elif callable(found):
            yield f"### `{of}.{name}{signature(found)}`\n\n{said(found)}"


def kinds() -> Iterator[str]:
    for cls, word in (
        (holdtight.Locks, "locks"),
        (holdtight.Lock, "lock"),
        (holdtight.ReadWriteLock, "rwlock"),
        (holdtight.Semaphore, "semaphore"),
        (holdtight.Multi, "multi"),
        (holdtight.Lease, "lease"),
        (holdtight.Leader, "leader"),
        (holdtight.Term, "term"),
    ):
        yield f"## {cls.__name__}\n\n{said(cls)}"
        own = cls.public
        if word in ("semaphore", "multi", "term"):
            own = tuple(name for name in own if name in vars(cls) or (word == "term" and name == "since"))
        yield from members(cls, own, word)
    for name in sorted(name for name in holdtight.__all__ if name.startswith("Async")):
        text = re.sub(r"(?s)Options:\n.*?\n\n", OPTIONS_OF_LOCKS, inspect.getdoc(getattr(holdtight, name)) or "")
        yield f"## {name}\n\n{paragraphs(text)}"


def values() -> Iterator[str]:
    yield f"## Profile\n\n{said(holdtight.Profile)}"
    for cls in (holdtight.Drift, holdtight.Backoff):
        yield f"## {cls.__name__}{signature(cls)}\n\n{said(cls)}"
    for cls in (
        *(holdtight.LockInfo, holdtight.Holder, holdtight.Waiter, holdtight.AuditRecord, holdtight.Finding),
        *(holdtight.Skipped, holdtight.Run, holdtight.Peek, holdtight.Leadership),
    ):
        yield f"## {cls.__name__}\n\n{said(cls).replace('| option |', '| field |')}"
    for enum in (holdtight.Kind, holdtight.LossReason):
        rows = "\n".join(f"| `{each.name}` | {each.text} |" for each in enum)
        yield f"## {enum.__name__}\n\n{said(enum)}\n\n| | |\n| --- | --- |\n{rows}"
    yield f"## Severity\n\n{said(holdtight.Severity)}"


def functions() -> Iterator[str]:
    for of in (holdtight.current_lease, holdtight.docs):
        yield f"## {of.__name__}{signature(of)}\n\nFrom `holdtight`. {said(of)}"


def modules() -> Iterator[str]:
    """What is imported from modules of its own."""
    yield "## Guards at the resource\n\nFrom `holdtight.fencing`. [docs/fencing.md](fencing.md) says which one to use."
    for name in fencing.__all__:
        cls = getattr(fencing, name)
        yield f"### `{name}{signature(cls)}`\n\n{said(cls)}"
        if not name.startswith("Async"):
            own = tuple(each for each in vars(cls) if not each.startswith("_"))
            yield from members(cls, own, "guard")
    yield (
        "## For operators\n\nFrom `holdtight.metrics`, `holdtight.tracing`, `holdtight.history` and "
        "`holdtight.tuning`. [docs/operations.md](operations.md) and [docs/tuning.md](tuning.md) have more."
    )
    for module in (metrics, tracing, history, tuning):
        word = module.__name__.removeprefix("holdtight.")
        yield from members(module, tuple(name for name in module.__all__ if name.islower()), word)
    yield f"### `tuning.Advice`\n\n{said(tuning.Advice).replace('| option |', '| field |')}"
    yield from members(tuning.Watch, ("report", "save"), "times")
    yield "## For tests\n\nFrom `holdtight.embedded` and `holdtight.testing`. [docs/testing.md](testing.md) has more."
    yield f"### `embedded.Server{signature(embedded.Server)}`\n\n{said(embedded.Server)}"
    yield f"### `testing.Clock{signature(testing.Clock)}`\n\n{said(testing.Clock)}"
    yield from members(testing.Clock, ("advance", "now", "store", "until_waiting", "waiting"), "clock")
    yield f"### `testing.lose(lease, reason=LossReason.TAKEN)`\n\n{said(testing.lose)}"


def of_events() -> Iterator[str]:
    yield f"## Events\n\nFrom `holdtight.events`. {said(events)}\n\n{said(events.Event)}"
    yield f"`as_dict()` of an event: {said(events.Event.as_dict)}"
    yield f"### `locks.events.subscribe{signature(events.Events.subscribe)}`\n\n{said(events.Events.subscribe)}"
    for name in events.__all__:
        cls = getattr(events, name)
        if not dataclasses.is_dataclass(cls) or cls is events.Event:
            continue
        fields = ", ".join(f"`{each.name}`" for each in dataclasses.fields(cls))
        yield f"### `{name}`\n\n{said(cls)}\n\nFields: {fields}."


def of_errors() -> Iterator[str]:
    yield (
        "## Errors\n\nFrom `holdtight` and `holdtight.errors`. All have `code`, `name`, `message`, `holder`, `waited`, "
        "`nodes`, and `as_dict()`, which `json.dumps` takes; they pickle. `python -m holdtight explain CODE` says what "
        "to do about one."
    )
    rows = ["| error | code | also a | also has | meaning |", "| --- | --- | --- | --- | --- |"]
    for name in errors.__all__:
        cls = getattr(errors, name)
        bases = ", ".join(f"`{base.__name__}`" for base in cls.__bases__)
        code = f"`{cls.code}`" if cls.code else ""
        own = ", ".join(f"`{each}`" for each in inspect.get_annotations(cls) if each != "code")
        rows.append(f"| `{name}` | {code} | {bases} | {own} | {' '.join(said(cls).split())} |")
    yield "\n".join(rows)


def written() -> str:
    parts = [INTRODUCTION, TARGETS, *kinds(), *functions(), *values(), *of_events(), *of_errors(), *modules()]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(written(), "utf-8")
    print(f"wrote {PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE}", file=sys.stderr)
