"""Loads with the client whatever it needs after a grant, so that nothing is read from files from then on.

Importing the package skips modules and scripts that many programs never need. But a process that has run out of file
descriptors cannot open a file, so the code that releases, renews, loses or withdraws a grant must be loaded before the
first grant. The scripts are loaded with the place: see stores/opening.py.
"""

from importlib import import_module

__all__ = ["load"]

_MODULES = (
    "json",
    "logging",
    "random",
    "holdtight.base.showing",
    "holdtight.events",
    "holdtight.core.deadlock",
    "holdtight.core.inspect",
)


def load() -> None:
    """Cheap when repeated."""
    for module in _MODULES:
        import_module(module)
