"""Servers that need no installation: a private one for a test, one shared by all of a user's programs.

`Server` is private: it ends with the object, or with the process that made it. `connecting` and
`ensure` lead to the server behind `embedded://`: one per user of this machine, started by whoever
comes first and ended by its own supervisor. It keeps apart only this user's processes on this
machine, and whatever it remembers ends with it.
"""

from holdtight.embedded.errors import EmbeddedError
from holdtight.embedded.private import Server
from holdtight.embedded.shared import connecting, ensure

__all__ = ["EmbeddedError", "Server", "connecting", "ensure"]
