"""For tests of code that uses locks: no server, no waiting, and lost leases on demand.

    from holdtight.testing import Clock, lose

`Clock` is a clock that the test advances, with memory stores that use it. `lose` takes a lease away from its holder.
With pytest there are the fixtures `locks`, `async_locks` and `clock`; they are available as soon as holdtight is
installed, or with `pytest_plugins = ["holdtight.testing"]`.

Modules that pytest does not need at its start are loaded on first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdtight.testing.advance import Advance, Clock
    from holdtight.testing.losing import lose

try:
    from holdtight.testing.plugin import (
        async_locks,
        clock,
        holdtight_options,
        holdtight_server,
        holdtight_target,
        locks,
        pytest_addoption,
        pytest_configure,
    )
except ModuleNotFoundError as _error:
    if _error.name != "pytest":
        raise
    # Without pytest there are no fixtures; the rest works without it.

__all__ = [
    "Advance",
    "Clock",
    "async_locks",
    "clock",
    "holdtight_options",
    "holdtight_server",
    "holdtight_target",
    "locks",
    "lose",
    "pytest_addoption",
    "pytest_configure",
]

_LATER = {"Advance": "advance", "Clock": "advance", "lose": "losing"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'holdtight.testing' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"holdtight.testing.{_LATER[name]}"), name)
    globals()[name] = value
    return value
