"""The shared server's folder: the same for all programs of a user, and nobody else's."""

import os
import stat
from pathlib import Path

import pytest

from holdtight.embedded import ensure
from holdtight.embedded.folder import FOLDER_VARIABLE, MAX_SOCKET_PATH, Home, home_at, home_of_user
from holdtight.errors import NotPermitted
from tests.support.homes import end


def somebody_elses_folder(tmp_path: Path) -> Path:
    if os.geteuid() != 0:
        return Path("/usr")
    folder = tmp_path / "foreign"
    folder.mkdir(0o700)
    os.chown(folder, 12345, 12345)
    return folder


def refused(folder: Path, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    with pytest.raises(NotPermitted, match=reason) as caught:
        ensure()
    assert isinstance(caught.value, PermissionError)
    assert FOLDER_VARIABLE in str(caught.value)


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(somebody_elses_folder(tmp_path), monkeypatch, "belongs to user")


def test_a_link_is_refused_even_to_a_folder_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ours").mkdir(0o700)
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    refused(tmp_path / "link", monkeypatch, "link")
    assert list((tmp_path / "ours").iterdir()) == []


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "planted")
    refused(tmp_path / "link", monkeypatch, "link")
    assert not (tmp_path / "planted").exists()


def test_a_file_in_its_place_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    refused(tmp_path / "file", monkeypatch, "file")


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_open_to_others_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(mode)
    refused(tmp_path / "open", monkeypatch, f"{mode:o}")


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777])
def test_it_is_made_for_its_user_alone_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        home = home_at(tmp_path / "home")
    finally:
        os.umask(before)
    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700


def test_the_place_depends_on_the_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A login shell has these variables, a cron job has not: both must meet at one server.
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.delenv("TMPDIR", raising=False)
    bare = home_of_user()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert home_of_user() == bare
    assert str(os.geteuid()) in bare.folder.name


def test_a_folder_whose_path_is_too_long_for_a_socket_still_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / ("x" * 120) / "home"))
    home = home_of_user()
    try:
        assert ensure() == home.url
        assert len(os.fsencode(home.socket)) <= MAX_SOCKET_PATH
        assert stat.S_IMODE(home.socket.parent.stat().st_mode) == 0o700
        assert home_of_user() == home
    finally:
        end(home)
        home.socket.parent.rmdir()


def test_two_long_paths_have_two_sockets(tmp_path: Path) -> None:
    homes = [home_at(tmp_path / (letter * 120)) for letter in "ab"]
    try:
        assert homes[0].socket != homes[1].socket
    finally:
        for home in homes:
            home.socket.parent.rmdir()


def test_characters_with_a_meaning_in_urls_are_escaped() -> None:
    assert Home(Path("/x"), Path("/tmp/a b?c#d%/valkey.sock")).url == "unix:///tmp/a%20b%3Fc%23d%25/valkey.sock"
