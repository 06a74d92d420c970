from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtight.embedded.folder import FOLDER_VARIABLE, Home, home_of_user
from holdtight.embedded.shared import IDLE_VARIABLE
from holdtight.embedded.wire import Wire, listening
from tests.embedded.processes import eventually, supervisors_of


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A folder for a shared server of the test's own. Its server stays until the test ends, unless told otherwise."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setenv(IDLE_VARIABLE, "60")
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
