"""The folder of the user's shared server: its path, the check that only we can access it, and its two locks.

The path depends on the user id alone, not on `XDG_RUNTIME_DIR` or `TMPDIR`: a login shell has these, a cron job of the
same user does not, and the two would hold the same lock at the same time.

Both locks are kernel locks, so that the death of a process releases them:

- the file `lock` is shared by clients while they connect, and exclusive for a client that starts the server and for the
  supervisor while it decides to end the server;
- the supervisor locks the folder itself as long as it runs. Only the holder of that lock may start a server or remove
  the socket. (It also keeps systemd-tmpfiles from deleting the folder.)
"""

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from holdtight.embedded.errors import EmbeddedError
from holdtight.errors import NotPermitted

FOLDER_VARIABLE = "HOLDTIGHT_EMBEDDED_DIR"
# The kernel limits a socket's path to 108 bytes on Linux and 104 on macOS, including the final NUL.
MAX_SOCKET_PATH = 103
_LOOK_AGAIN = 0.005


@dataclass(frozen=True)
class Home:
    """The folder of a shared server, and the path of its socket (elsewhere if the path would be too long)."""

    folder: Path
    socket: Path

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self.socket))}"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @contextmanager
    def locked(self, *, exclusive: bool, deadline: float) -> Generator[None, None, None]:
        """Holds the file `lock`. Polls, since a wait in the kernel cannot have a deadline."""
        mode = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        while True:
            lock = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if _try_flock(lock, mode) and _same_file(lock, self.lock):
                    yield
                    return
            finally:
                # Closing is not enough: a child that was forked meanwhile has a copy of the descriptor.
                fcntl.flock(lock, fcntl.LOCK_UN)
                os.close(lock)
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"the embedded server's {self.lock} is held by another process for too long: "
                    "is one of your programs stopped while it starts the server?"
                )
            time.sleep(_LOOK_AGAIN)

    def supervised(self) -> bool:
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return not _try_flock(folder, fcntl.LOCK_SH)
        finally:
            fcntl.flock(folder, fcntl.LOCK_UN)
            os.close(folder)

    @contextmanager
    def supervising(self, *, deadline: float) -> Generator[int | None, None, None]:
        """Holds the supervisor's lock; yields the folder's descriptor, or None if the deadline passed."""
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            while not (mine := _try_flock(folder, fcntl.LOCK_EX)) and time.monotonic() < deadline:
                time.sleep(_LOOK_AGAIN)
            yield folder if mine else None
        finally:
            os.close(folder)

    def reachable(self, folder: int) -> bool:
        """True if clients still find the server: the path leads to the folder that we have open, with its socket."""
        return _same_file(folder, self.folder) and self.socket.exists()


def home_of_user() -> Home:
    """The folder of this user, created if necessary; refused unless it is ours and no other user has access."""
    override = os.environ.get(FOLDER_VARIABLE)
    uid = os.geteuid()
    if override:
        folder = Path(override).absolute()
        folder.parent.mkdir(parents=True, exist_ok=True)
    else:
        folder = _common_place() / f"holdtight-{uid}"
    return home_at(folder)


def home_at(folder: Path) -> Home:
    _make_private(folder)
    socket = folder / "valkey.sock"
    if len(os.fsencode(socket)) > MAX_SOCKET_PATH:
        import hashlib

        digest = hashlib.blake2b(os.fsencode(folder), digest_size=10).hexdigest()
        short = _common_place() / f"holdtight-{os.geteuid()}-{digest}"
        _make_private(short)
        socket = short / "valkey.sock"
    return Home(folder, socket)


def _common_place() -> Path:
    return Path("/tmp" if os.path.isdir("/tmp") else tempfile.gettempdir())


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(0o700)
        folder.chmod(0o700)  # whatever the umask
    except FileExistsError:
        pass
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        fault = "it is not a folder but a link or a file"
    elif found.st_uid != os.geteuid():
        fault = f"it belongs to user {found.st_uid}, not to us ({os.geteuid()})"
    elif stat.S_IMODE(found.st_mode) & 0o077:
        fault = f"others have access to it (mode {stat.S_IMODE(found.st_mode):o} instead of 700)"
    else:
        return
    raise NotPermitted(
        f"the embedded server's folder {folder} cannot be trusted: {fault}. "
        f"Remove it if it is yours, or name another folder in {FOLDER_VARIABLE}."
    )


def _try_flock(descriptor: int, mode: int) -> bool:
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _same_file(descriptor: int, path: Path) -> bool:
    """False if the file was removed or replaced meanwhile: a lock on it would exclude no process."""
    ours = os.fstat(descriptor)
    try:
        theirs = path.stat()
    except FileNotFoundError:
        return False
    return (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)
