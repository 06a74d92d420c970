"""What a client needs besides taking a lock, loaded with the client: nothing is read from files after a grant.

Modules and scripts that many programs never need are not loaded with the package: every import would wait for them. But
a process that has used up its descriptors can open no file. What gives back, renews, loses or withdraws a grant must be
there before there is a grant.
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
    """Quick if it was done before. To be called once the modules of the client's place have named their scripts."""
    for module in _MODULES:
        import_module(module)
    for script in SCRIPTS:
        script.load()
