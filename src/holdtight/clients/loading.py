"""Loads with the client whatever it needs after a grant, so that nothing is read from files from then on.

Importing the package skips modules and scripts that many programs never need. But a process that has run out of file
descriptors cannot open a file, so the code that releases, renews, loses or withdraws a grant must be loaded before the
first grant.
"""

from importlib import import_module

from holdtight.stores.redis.script import SCRIPTS

__all__ = ["load"]

_MODULES = (
    "json",
    "logging",
    "random",
    "holdtight.events",
    "holdtight.core.deadlock",
    "holdtight.stores.redis.wait_records",
)


def load() -> None:
    """Cheap when repeated. Call it after the modules of the client's place have registered their scripts."""
    for module in _MODULES:
        import_module(module)
    for script in SCRIPTS:
        script.load()
