"""What completes the name of a lock on the shell's line."""

import threading
from typing import TYPE_CHECKING

import click

from holdtight import LockError
from holdtight.cli.options import of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    _NameType = click.ParamType[str]
else:
    _NameType = click.ParamType  # before click 8.4 it takes no type argument

__all__ = ["NAME"]

COMPLETE_SECONDS = 0.3
MOST_COMPLETIONS = 100


class _Name(_NameType):
    """The name of a lock, completed from those that are in use."""

    name = "name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        if any(sign in incomplete for sign in "*?["):
            return []
        settings, found = of(ctx), list[str]()
        settings.timeout = COMPLETE_SECONDS
        try:
            locks = settings.locks()
        except click.ClickException:
            return []

        def look() -> None:
            try:
                for info in locks.list(f"{incomplete}*"):
                    found.append(info.name)
                    if len(found) >= MOST_COMPLETIONS:
                        break
            except (LockError, ValueError):
                pass

        looking = threading.Thread(target=look, daemon=True)  # a list among many keys may take seconds
        looking.start()
        looking.join(COMPLETE_SECONDS)
        return [CompletionItem(name) for name in sorted(found.copy())]


NAME = _Name()
