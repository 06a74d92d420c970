"""Scripts are loaded when they are first needed, by whichever threads need them."""

from __future__ import annotations

from typing import Any

from holdtight.stores.redis.script import MULTI, Script


class LoadedTwice(Script):
    """Somebody else loads it as well, in the middle of it."""

    inside = False

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "keys" and not self.inside:
            self.inside = True
            self.load()


def test_a_script_that_two_threads_load_at_once_is_what_it_is() -> None:
    script = LoadedTwice("multi")
    assert (script.keys, script.argv, script.open_ended) == (MULTI.keys, MULTI.argv, MULTI.open_ended)
