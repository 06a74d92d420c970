"""Loads with the client whatever it needs after a grant, so that nothing is read from files from then on.

Importing the package skips modules and scripts that many programs never need. But a process that has run out of file
descriptors cannot open a file, so the code that releases, renews, loses or withdraws a grant must be loaded before the
first grant. The scripts are loaded with the place: see stores/opening.py.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from holdtight.keeper.keeper import runtime

if TYPE_CHECKING:
    from holdtight.base.runtime import Runtime
    from holdtight.clients.verbs import Verbs
    from holdtight.config.settings import Settings
    from holdtight.stores.boundary import Place
    from holdtight.stores.client import Client

__all__ = ["load", "place_of", "runtime_of", "verbs_for"]

_MODULES = (
    "json",
    "logging",
    "random",
    "holdtight.base.showing",
    "holdtight.events",
    "holdtight.core.deadlock",
    "holdtight.core.inspect",
    "holdtight.keeper.connection",
)
_OF_ACKS = ("holdtight.keeper.barrier", "holdtight.grants.acked_tenure")


def load() -> None:
    """Cheap when repeated."""
    for module in _MODULES:
        import_module(module)


# The functions below import the places with the first client, not with the package.


def runtime_of(settings: "Settings") -> "Runtime":
    """The runtime of this process, unless a memory target brings its own clock."""
    from holdtight.config.targets import Memory

    realm = settings.target.realm if isinstance(settings.target, Memory) else None
    return runtime if realm is None else realm.runtime


def place_of(settings: "Settings", client: "Client", here: "Runtime") -> "Place":
    from holdtight.stores.opening import open_place

    place = open_place(settings, client, here)
    load()
    if settings.acks:
        for module in _OF_ACKS:
            import_module(module)
    return place


def verbs_for(place: "Place") -> "Verbs":
    from holdtight.clients.verbs import verbs_of

    return verbs_of(place)
