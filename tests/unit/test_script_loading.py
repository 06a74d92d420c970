"""Scripts are loaded when they are first needed, by whichever threads need them."""

from __future__ import annotations

from typing import Any

from holdtight.stores.redis.resp import command
from holdtight.stores.redis.script import MULTI, RENEW, SCRIPTS, Script, with_script_body


class LoadedTwice(Script):
    """Another thread loads it as well, at the same time."""

    inside = False

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "keys" and not self.inside:
            self.inside = True
            self.load()


def test_a_script_that_two_threads_load_at_once_is_what_it_is() -> None:
    script = LoadedTwice("multi")
    assert (script.keys, script.argv, script.open_ended) == (MULTI.keys, MULTI.argv, MULTI.open_ended)


def test_a_request_can_carry_the_script_that_it_names() -> None:
    for script in SCRIPTS:
        keys = [b"key"] * (len(script.keys) or 4)
        args = ["argument"] * (script.needed or 8)
        whole = with_script_body(script.request(keys, *args))
        assert whole == command("EVAL", script.body, len(keys), *keys, *args)
        assert with_script_body(whole) == whole


def test_a_request_without_a_script_of_ours_stays_as_it_is() -> None:
    plain = command("SET", "key", "EVALSHA")
    foreign = command("EVALSHA", "f" * 40, 0)
    argument = command("SET", RENEW.start, RENEW.sha)
    assert [with_script_body(each) for each in (plain, foreign, argument)] == [plain, foreign, argument]
