"""Servers that need no installation: a private one for a test, and one shared by all programs of a user.

`Server` is private: it ends with the object, or with the process that made it. `connecting` and `ensure` give access to
the server behind `embedded://`: one per user of this machine, started by the first client and ended by its own
supervisor. Its locks exclude only processes of this user on this machine, and all its data ends with it.
"""

from holdtight.embedded.errors import EmbeddedError
from holdtight.embedded.private import Server
from holdtight.embedded.shared import connecting, ensure

__all__ = ["EmbeddedError", "Server", "connecting", "ensure"]
