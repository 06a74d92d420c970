"""The settings of a client, and how they are pickled for other processes."""

from __future__ import annotations

import copy
import pickle
import ssl
from datetime import timedelta
from typing import Any

import pytest

from holdtight import Backoff, Drift, Locks, NotSupported
from holdtight.config.credentials import Login
from holdtight.config.settings import UNSET, Settings
from holdtight.config.targets import Sentinel

URL = "redis://user:secret@127.0.0.1:1/3"


def opened(**given: Any) -> Settings:
    return Locks(given.pop("target", URL), **given).settings


def test_the_defaults_are_those_of_the_public_surface() -> None:
    settings = opened()
    assert (settings.namespace, settings.ttl, settings.wait, settings.label) == ("ht", 30.0, None, None)
    assert (settings.drift, settings.retry) == (Drift(0.01, "2ms"), Backoff("10ms", "1s"))
    assert (settings.max_waiters, settings.deadlock_after, settings.connect_timeout) == (10_000, 1.0, 2.0)
    assert settings.max_connections is None


def test_durations_are_taken_as_they_are_written() -> None:
    settings = opened(ttl="1m", wait=timedelta(seconds=2), connect_timeout="500ms", deadlock_after=0)
    assert (settings.ttl, settings.wait, settings.connect_timeout) == (60.0, 2.0, 0.5)


@pytest.mark.parametrize(
    ("argument", "value", "error"),
    [
        ("namespace", "", ValueError),
        ("namespace", "a{b", ValueError),
        ("namespace", 5, TypeError),
        ("ttl", 0, ValueError),
        ("ttl", "8d", ValueError),
        ("ttl", True, ValueError),
        ("ttl", float("nan"), ValueError),
        ("ttl", None, TypeError),
        ("wait", -1, ValueError),
        ("wait", False, ValueError),
        ("wait", "soon", ValueError),
        ("label", "a" * 129, ValueError),
        ("label", 5, TypeError),
        ("on_unavailable", "ignore", ValueError),
        ("on_unavailable", None, ValueError),
        ("drift", 0.01, TypeError),
        ("retry", "10ms", TypeError),
        ("max_waiters", 0, ValueError),
        ("max_waiters", True, TypeError),
        ("max_waiters", 1.5, TypeError),
        ("max_connections", 0, ValueError),
        ("max_connections", "5", TypeError),
        ("connect_timeout", 0, ValueError),
        ("connect_timeout", -1, ValueError),
        ("connect_timeout", None, TypeError),
        ("deadlock_after", -1, ValueError),
        ("deadlock_after", float("inf"), ValueError),
        ("tls", True, TypeError),
        ("acks", True, TypeError),
        ("acks", 1.0, TypeError),
        ("acks", None, TypeError),
        ("acks", -1, ValueError),
        ("sentinel_credentials", ("user", "pw"), ValueError),
        ("sentinel_credentials", 5, TypeError),
        ("target", "redis+sentinel://h:26379", ValueError),
        ("target", "redis+sentinel:///mymaster", ValueError),
        ("target", "redis+sentinel://h/mymaster?quorum=2", ValueError),
        ("target", "redis+sentinel://h/mymaster/0?db=1", ValueError),
        ("target", "redis+cluster://h/1", ValueError),
        ("target", "redis+cluster://h?quorum=2", ValueError),
        ("target", "redis+cluster://", ValueError),
        ("tls", object(), TypeError),
        ("credentials", 5, TypeError),
    ],
    ids=lambda value: str(getattr(value, "__name__", value))[:12],
)
def test_what_is_wrong_is_named_before_anything_is_sent(argument: str, value: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=argument):
        opened(**{argument: value})


@pytest.mark.parametrize(("argument", "value"), [("max_ttl", "soon"), ("max_ttl", -1), ("restart_guard", "no")])
def test_what_only_a_quorum_uses_is_checked_all_the_same(argument: str, value: object) -> None:
    with pytest.raises((ValueError, TypeError), match=argument):
        opened(**{argument: value})


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("target", ["redis://a", "redis+sentinel://h:26379/mymaster", "redis://c"]),
        ("target", ["redis://a", "redis+cluster://h:7000", "redis://c"]),
        ("target", ["redis://a", "embedded://", "redis://c"]),
    ],
    ids=str,
)
def test_what_is_not_built_yet_is_refused_and_not_ignored(argument: str, value: object) -> None:
    with pytest.raises(NotSupported, match=argument):
        opened(**{argument: value})


@pytest.mark.parametrize("target", ["memory://", "embedded://", ["redis://a", "redis://b", "redis://c"]], ids=str)
def test_acks_are_refused_where_nothing_replicates(target: Any) -> None:
    with pytest.raises(NotSupported, match="acks"):
        opened(target=target, acks=1)
    assert opened(target=target, acks=0).acks == 0


def test_acks_cross_processes_with_the_settings() -> None:
    settings = opened(acks=2)
    assert pickle.loads(pickle.dumps(settings)).acks == 2


def test_credentials_given_apart_replace_those_of_the_url() -> None:
    login = opened(credentials=("other", "word")).target.address.login()  # type: ignore[union-attr]
    assert login is not None
    assert (login.user, login.password) == ("other", "word")


SENTINEL = "rediss+sentinel://user:word@a:1,b/mymaster/3"


def test_sentinels_have_a_login_of_their_own() -> None:
    target = opened(target=SENTINEL, sentinel_credentials=("guard", "secret")).target
    assert isinstance(target, Sentinel)
    assert (target.node.login(), target.node.db) == (Login("user", "word"), 3)
    assert [each.login() for each in target.sentinels] == [Login("guard", "secret")] * 2
    assert [(each.endpoint, each.tls) for each in target.sentinels] == [("a:1", True), ("b:26379", True)]
    bare = opened(target=SENTINEL, credentials="other").target
    assert isinstance(bare, Sentinel)
    assert (bare.node.login(), bare.sentinels[0].login()) == (Login(None, "other"), None)


def test_a_tls_context_is_for_the_servers_and_the_sentinels() -> None:
    target = opened(target="redis+sentinel://a/mymaster", tls=ssl.create_default_context()).target
    assert isinstance(target, Sentinel)
    assert target.node.tls
    assert target.sentinels[0].tls


def test_a_refusal_shows_no_password() -> None:
    with pytest.raises(ValueError, match="no Sentinels") as refused:
        opened(target="redis://user:word@h", sentinel_credentials="secret")
    assert "word" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_tls_context_means_tls() -> None:
    context = ssl.create_default_context()
    assert opened(tls=context).target.address.tls  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="unix socket"):
        opened(target="unix:///tmp/s", tls=context)


class Context(ssl.SSLContext):
    """As some libraries make them."""


def test_a_tls_context_may_be_of_a_subclass() -> None:
    assert opened(tls=Context(ssl.PROTOCOL_TLS_CLIENT)).tls is not None


def test_settings_are_frozen_and_compare_by_value() -> None:
    assert opened() == opened()
    assert hash(opened()) == hash(opened(ttl="30s"))
    assert opened() != opened(namespace="other")
    with pytest.raises(AttributeError):
        opened().ttl = 5.0  # type: ignore[misc]


def test_no_secret_stands_in_what_is_shown() -> None:
    locks = Locks(URL)
    for shown in (repr(locks), repr(locks.settings), repr(locks.lock("x")), locks.place.display):
        assert "secret" not in shown


# Pickling.


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_settings_pickle_by_value(protocol: int) -> None:
    settings = opened(ttl=5, namespace="shop", label="billing", wait=2, max_connections=4)
    came = pickle.loads(pickle.dumps(settings, protocol))
    assert came == settings
    assert came is not settings
    assert hash(came) == hash(settings)


def test_a_client_comes_back_as_the_one_there_is_in_this_process() -> None:
    locks = Locks(URL, namespace="shared")
    assert pickle.loads(pickle.dumps(locks)) is locks


def test_a_client_that_is_no_more_comes_back_as_a_new_one_which_is_then_shared() -> None:
    text = pickle.dumps(Locks(URL, namespace="gone"))
    one = pickle.loads(text)
    assert isinstance(one, Locks)
    assert one.settings.namespace == "gone"
    assert pickle.loads(text) is one
    one.close()
    another = pickle.loads(text)
    assert another is not one
    assert not another.closed


def test_a_lock_comes_back_with_its_options_and_its_client() -> None:
    locks = Locks(URL, namespace="locks", ttl=5)
    lock = locks.lock("orders", wait=2, reentrant=True, renew=False, max_hold=60, label="billing")
    came = pickle.loads(pickle.dumps(lock))
    assert came.name == "orders"
    assert came.options == lock.options
    assert came._locks is locks
    assert came.key == lock.key, "re-entry is by client and name, not by object"


def test_a_client_with_a_tls_context_says_why_it_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match="ssl_ca_certs"):
        pickle.dumps(Locks(URL, tls=ssl.create_default_context()))


def test_the_mark_of_what_was_not_given_stays_one_object() -> None:
    assert pickle.loads(pickle.dumps(UNSET)) is UNSET


def test_a_client_of_the_memory_store_says_why_it_cannot_be_pickled() -> None:
    locks = Locks("memory://settings")
    for what in (locks, locks.lock("a")):
        with pytest.raises(TypeError, match=r"memory://settings cannot be pickled: its locks are in this process"):
            pickle.dumps(what)


def test_in_this_process_a_client_of_the_memory_store_can_be_copied() -> None:
    locks = Locks("memory://settings", namespace="copied")
    assert copy.deepcopy({"locks": locks})["locks"] is locks
    assert copy.deepcopy(locks.lock("a")).key == locks.lock("a").key


@pytest.mark.parametrize("given", [{"credentials": ("me", "secret")}, {"tls": ssl.create_default_context()}])
def test_what_the_memory_store_has_no_use_for_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"{next(iter(given))}= was given for memory://"):
        Locks("memory://", **given)


@pytest.mark.parametrize("how", ["local", "open"])
def test_a_quorum_has_no_stand_in_yet_and_says_so(how: Any) -> None:
    with pytest.raises(NotSupported, match="on_unavailable"):
        Locks(["redis://a", "redis://b", "redis://c"], on_unavailable=how)
