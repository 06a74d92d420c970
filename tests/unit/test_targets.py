from __future__ import annotations

import copy
import pickle
import ssl
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest
from redis.credentials import UsernamePasswordCredentialProvider

from holdtight.config.credentials import FromProvider, Login, check_credentials, check_login
from holdtight.config.targets import Address, Cluster, Embedded, Memory, Quorum, Sentinel, Single, Target, TlsSettings
from tests.support.certificates import Certificates
from tests.unit.providers import (
    SECRET,
    AsyncProvider,
    LockedProvider,
    Provider,
    give_login,
    give_login_async,
)

# Values


NODE = Address("h", 7, db=1, user="u", password=SECRET, tls=True, client_name="me", protocol=3)
TARGETS: list[Target] = [
    Single(NODE),
    Single(Address(path="/s", credentials=give_login)),
    Embedded(),
    Memory("x"),
    Sentinel((Address("s1", 26379), Address("::1", 26379)), "mymaster", NODE),
    Cluster((NODE, replace(NODE, host="i"))),
    Quorum((Single(NODE), Single(replace(NODE, host="i")))),
    Single(Address("h", credentials=FromProvider(UsernamePasswordCredentialProvider("u"), "get_credentials"))),
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: type(target).__name__)
def test_targets_are_values(target: Target) -> None:
    again = copy.copy(target)
    assert again == target
    assert hash(again) == hash(target)
    assert len({target, again}) == 1
    assert SECRET not in repr(target)
    assert SECRET not in target.display()
    for field in fields(target):
        with pytest.raises(FrozenInstanceError):
            setattr(target, field.name, None)


@pytest.mark.parametrize("target", TARGETS[:-1], ids=lambda target: type(target).__name__)
def test_targets_survive_pickling(target: Target) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(target, protocol))
        assert again == target
        assert hash(again) == hash(target)


def test_the_password_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(NODE)).password == SECRET


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        (Single(Address("h", 7, db=1, user="u", password=SECRET)), "redis://h:7/1"),
        (Single(NODE), "rediss://h:7/1"),
        (Single(Address("::1")), "redis://[::1]:6379/0"),
        (Single(Address(path="/s", password=SECRET)), "unix:///s"),
        (Single(Address(path="/s", db=3)), "unix:///s?db=3"),
        (Embedded(), "embedded://"),
        (Memory("x"), "memory://x"),
        (Sentinel((Address("a", 1), Address("::1", 2)), "m", NODE), "rediss+sentinel://a:1,[::1]:2/m/1"),
        (Cluster((Address("a", 1), Address("b", 2))), "redis+cluster://a:1,b:2"),
        (Quorum((Single(Address("a")), Memory("b"))), "[redis://a:6379/0, memory://b]"),
    ],
    ids=str,
)
def test_targets_are_shown_to_people(target: Target, shown: str) -> None:
    assert target.display() == shown


# Credentials


@pytest.mark.parametrize(
    ("given", "login"),
    [
        (None, None),
        ("pw", Login(None, "pw")),
        (("u", "pw"), Login("u", "pw")),
        (("u", ""), Login("u", "")),
        ((None, "pw"), Login(None, "pw")),
        (("", "pw"), Login(None, "pw")),
        (("pw",), Login(None, "pw")),
        (Login("u", "pw"), Login("u", "pw")),
        (give_login, give_login),
        (give_login_async, give_login_async),
    ],
)
def test_credentials_that_are_accepted(given: object, login: object) -> None:
    assert check_credentials(given) == login


@pytest.mark.parametrize(
    "given",
    [
        b"hunter2",
        ("u", b"hunter2"),
        ("u", None),
        ("hunter2", "u", "x"),
        (),
        5,
        ["u", SECRET],
        {"u": SECRET},
        "",
    ],
    ids=str,
)
def test_credentials_that_are_not_say_so_without_showing_them(given: object) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^sentinel_credentials: ") as caught:
        check_credentials(given, "sentinel_credentials")
    assert SECRET not in str(caught.value)


def test_what_a_callable_gave_is_checked_too() -> None:
    assert check_login(("u", "p")) == check_login(["u", "p"]) == check_login(Login("u", "p")) == Login("u", "p")
    assert check_login(("p",)) == check_login("p") == Login(None, "p")
    for bad in (None, 5, b"hunter2", (b"hunter2",), ("u", 5), ("hunter2", "a", "b")):
        with pytest.raises(TypeError, match=r"^credentials: the callable") as caught:
            check_login(bad)
        assert SECRET not in str(caught.value)


def test_credentials_given_apart_replace_those_of_the_url() -> None:
    address = Address("h", user="u", password="p")
    assert address.with_credentials(None) is address
    assert address.with_credentials(Login(None, "q")) == Address("h", password="q")
    asked = address.with_credentials(give_login)
    assert (asked.user, asked.password, asked.credentials) == (None, None, give_login)
    assert asked.with_credentials(Login("v", "q")) == Address("h", user="v", password="q")


@pytest.mark.parametrize(
    ("address", "login"),
    [
        (Address(), None),
        (Address(password="p"), Login(None, "p")),
        (Address(user="u"), Login("u", "")),
        (Address(user="u", password="p"), Login("u", "p")),
        (Address(credentials=give_login), Login("u", SECRET)),
        (Address(credentials=give_login_async), Login(None, SECRET)),
        (Address(credentials=FromProvider(Provider(), "get_credentials")), Login("sync", SECRET)),
        (Address(credentials=FromProvider(AsyncProvider(), "get_credentials_async")), Login("async", SECRET)),
        (
            Address(credentials=FromProvider(UsernamePasswordCredentialProvider(None, "p"), "get_credentials")),
            Login(None, "p"),
        ),
    ],
)
def test_logging_in_uses_the_address_or_asks_the_provider(address: Address, login: Login | None) -> None:
    assert address.login() == login


def test_credentials_that_cannot_be_pickled_say_which() -> None:
    for credentials, name in (
        (lambda: "p", "function"),
        (FromProvider(LockedProvider(), "get_credentials"), "LockedProvider"),
    ):
        with pytest.raises(TypeError, match=rf"credentials of redis://h:6379/0 cannot be pickled \({name}: "):
            pickle.dumps(Single(Address("h", credentials=credentials)))


def test_any_callable_can_be_hashed() -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self) -> str:
            return "p"

    hash(Address(credentials=Unhashable()))


# TLS


def test_a_context_checks_as_it_is_told(certificates: Certificates) -> None:
    context = TlsSettings(ca_file=certificates.ca).context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert [dict(sum(each["subject"], ()))["commonName"] for each in _authorities(context)] == ["holdtight tests"]
    context = TlsSettings(verify="none").context()
    assert context.verify_mode is ssl.CERT_NONE
    assert not context.check_hostname
    context = TlsSettings(verify="optional", check_hostname=False).context()
    assert context.verify_mode is ssl.CERT_OPTIONAL
    assert not context.check_hostname


def _authorities(context: ssl.SSLContext) -> list[dict[str, Any]]:
    return context.get_ca_certs()


def test_a_context_has_everything_else_that_was_asked_for(certificates: Certificates) -> None:
    with open(certificates.ca) as file:
        pem = file.read()
    context = TlsSettings(
        ca_data=pem,
        cert=certificates.client_cert,
        key=certificates.client_key,
        min_version=ssl.TLSVersion.TLSv1_3,
        ciphers="ECDHE-RSA-AES256-GCM-SHA384",
        verify_flags=("VERIFY_CRL_CHECK_LEAF",),
        no_verify_flags=("VERIFY_X509_TRUSTED_FIRST",),
    ).context()
    assert len(_authorities(context)) == 1
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert "ECDHE-RSA-AES256-GCM-SHA384" in {each["name"] for each in context.get_ciphers()}
    assert context.verify_flags & ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    assert not context.verify_flags & ssl.VerifyFlags.VERIFY_X509_TRUSTED_FIRST
    assert len(_authorities(TlsSettings(ca_data=ssl.PEM_cert_to_DER_cert(pem)).context())) == 1


def test_bad_files_are_an_error_of_the_context_not_of_the_settings() -> None:
    with pytest.raises(OSError, match="No such file"):
        TlsSettings(ca_file="/no/such/file").context()
