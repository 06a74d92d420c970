"""The meaning of error replies: which of our errors, and whether a retry can help."""

from __future__ import annotations

import pytest

from holdtight.base.plan import ServerSaid
from holdtight.errors import LockError, NotPermitted, OutOfMemory, ScriptError, Unavailable
from holdtight.stores.redis.error_replies import is_passing, meaning

IN_SCRIPT_6 = "ERR Error running script (call to f_4d1b): @user_script:32: @user_script: 32: -"
"""How Redis 6.2 wraps the error of a command in a script."""


def mean(text: str) -> LockError:
    return meaning(ServerSaid(text), name="orders", server="redis://a", key=b"ht:{orders}")


PASSING = [
    "LOADING Redis is loading the dataset in memory",
    "READONLY You can't write against a read only replica.",
    "READONLY You can't write against a read only replica. script: 4d1b, on @user_script:32.",
    "CLUSTERDOWN The cluster is down",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "NOREPLICAS Not enough good replicas to write.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist on disk.",
]
PASSING_BUT_NOT_SEEN = [
    IN_SCRIPT_6 + "READONLY You can't write against a read only replica.",
    IN_SCRIPT_6 + "NOREPLICAS Not enough good replicas to write.",
    "ERR max number of clients reached",
]


@pytest.mark.parametrize("text", PASSING)
def test_a_server_that_cannot_answer_now_is_unavailable_and_may_be_asked_again(text: str) -> None:
    assert is_passing(ServerSaid(text))
    error = mean(text)
    assert type(error) is Unavailable
    assert text in str(error)
    assert error.nodes == {"redis://a": text}


@pytest.mark.parametrize("text", PASSING_BUT_NOT_SEEN)
def test_a_server_that_says_so_in_other_words_is_unavailable_too(text: str) -> None:
    assert is_passing(ServerSaid(text))
    assert type(mean(text)) is Unavailable


@pytest.mark.parametrize(
    "text",
    [
        "NOAUTH Authentication required.",
        "WRONGPASS invalid username-password pair or user is disabled.",
        "NOPERM this user has no permissions to run the 'evalsha' command",
        "NOPERM User x has no permissions to access the 'ht:{orders}' key",
        "ERR AUTH <password> called without any password configured for the default user.",
        "ERR invalid username-password pair",
        "ERR ACL failure in script: User x has no permissions to run the 'set' command",
        "ERR The user executing the script can't access at least one of the keys mentioned in the script",
        IN_SCRIPT_6 + "NOPERM this user has no permissions to run the 'set' command or its subcommand",
    ],
)
def test_a_refusal_is_not_permitted_and_is_not_asked_again(text: str) -> None:
    assert not is_passing(ServerSaid(text))
    error = mean(text)
    assert type(error) is NotPermitted
    assert text in str(error)
    assert error.name == "orders"


@pytest.mark.parametrize("wrapping", ["", IN_SCRIPT_6])
def test_out_of_memory_is_an_error_of_its_own(wrapping: str) -> None:
    text = wrapping + "OOM command not allowed when used memory > 'maxmemory'."
    assert not is_passing(ServerSaid(text))
    assert type(mean(text)) is OutOfMemory


@pytest.mark.parametrize("where", ["", f"{40 * 'd'}, "], ids=["valkey 9", "redis 7"])
def test_where_in_our_script_a_command_was_refused_is_not_shown(where: str) -> None:
    error = mean(f"OOM command not allowed when used memory > 'maxmemory'. script: {where}on @user_script:38.")
    assert "took no new lock (OOM command not allowed when used memory > 'maxmemory')." in str(error)
    assert "@user_script:38" in str(mean(f"ERR attempt to index a nil value script: {where}on @user_script:38."))


@pytest.mark.parametrize(
    "text",
    [
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        IN_SCRIPT_6 + "WRONGTYPE Operation against a key holding the wrong kind of value",
        "HTFOREIGN the key holds a value that is not a lock of this format",
    ],
)
def test_a_foreign_value_is_a_script_error_that_names_the_key(text: str) -> None:
    error = mean(text)
    assert type(error) is ScriptError
    assert "ht:{orders}" in str(error)
    assert "Nothing was overwritten" in str(error)
    assert "HTFOREIGN" not in str(error)


@pytest.mark.parametrize("text", ["ERR unknown command 'EVALSHA'", "ERR syntax error", "SOMETHING new", ""])
def test_anything_else_is_a_script_error_with_the_servers_words(text: str) -> None:
    assert not is_passing(ServerSaid(text))
    error = mean(text)
    assert type(error) is ScriptError
    assert text in str(error)


def test_the_word_of_an_error_reply_is_its_first() -> None:
    assert ServerSaid("NOSCRIPT No matching script").word == "NOSCRIPT"
    assert ServerSaid("").word == ""
