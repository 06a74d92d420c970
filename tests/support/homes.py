"""The server behind embedded://, in a folder of a test's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdtight.embedded.folder import FOLDER_VARIABLE, Home, home_of_user
from holdtight.embedded.shared import IDLE_VARIABLE
from holdtight.embedded.wire import Wire, listening
from tests.embedded.processes import eventually, supervisors_of

__all__ = ["end", "own_home"]


@contextmanager
def own_home(folder: Path) -> Iterator[Home]:
    """For this process and its children. The server stays until the end, unless the test sets IDLE_VARIABLE."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, str(folder))
        patch.setenv(IDLE_VARIABLE, "60")
        home = home_of_user()
        yield home
        end(home)


def end(home: Home) -> None:
    def ended() -> bool:
        if listening(str(home.socket)):
            try:
                with Wire(str(home.socket)) as wire:
                    wire.ask("SHUTDOWN NOSAVE")
            except OSError:
                pass
        return not supervisors_of(home.folder) and not listening(str(home.socket))

    if home.folder.exists():
        eventually(ended, "the shared server and its supervisor are gone")
