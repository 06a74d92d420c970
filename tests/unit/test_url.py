from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from string import ascii_lowercase, digits
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtight.config.targets import Address, Cluster, Embedded, Memory, Quorum, Sentinel, Single, TlsSettings
from holdtight.config.url import parse

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://", Address()),
        ("redis://h", Address("h")),
        ("redis://h/", Address("h")),
        ("redis://h:7000", Address("h", 7000)),
        ("redis://:7000", Address(port=7000)),
        ("redis://h/3", Address("h", db=3)),
        ("redis:///3", Address(db=3)),
        ("redis://h?db=3", Address("h", db=3)),
        ("redis://h/3?db=3", Address("h", db=3)),
        ("valkey://h:1/2", Address("h", 1, db=2)),
        ("REDIS://H.Example.COM", Address("h.example.com")),
        ("redis://my_host-1", Address("my_host-1")),
        ("redis://127.0.0.1:65535", Address("127.0.0.1", 65535)),
        ("redis://[::1]", Address("::1")),
        ("redis://[::1]:7000/1", Address("::1", 7000, db=1)),
        ("redis://[FE80:0::1%25eth0]:7000", Address("fe80::1%eth0", 7000)),
        ("redis://u:p@h", Address("h", user="u", password="p")),
        ("redis://:p@h", Address("h", password="p")),
        ("redis://u@h", Address("h", user="u")),
        ("redis://@h", Address("h")),
        ("redis://u:p@/1", Address(user="u", password="p", db=1)),
        ("redis://u:p@[::1]:1", Address("::1", 1, user="u", password="p")),
        ("redis://u%3A%40:p%2F%3F%23%25%40@h", Address("h", user="u:@", password="p/?#%@")),
        ("redis://u:p:q@h", Address("h", user="u", password="p:q")),
        ("redis://u:p@q@h", Address("h", user="u", password="p@q")),
        ("redis://u:p+q%20r@h", Address("h", user="u", password="p+q r")),
        ("redis://u:p%C3%A4%zz@h", Address("h", user="u", password="pä%zz")),
        ("redis://h?username=u&password=p%26", Address("h", user="u", password="p&")),
        ("redis://h?client_name=me&protocol=2", Address("h", client_name="me", protocol=2)),
        ("redis://h?protocol=3", Address("h", protocol=3)),
        ("redis://h?socket_timeout=5&max_connections=10&decode_responses=True", Address("h")),
        ("rediss://h", Address("h", tls=True)),
        ("valkeys://h:1", Address("h", 1, tls=True)),
        ("unix:///run/r.sock", Address(path="/run/r.sock")),
        ("unix:///run/r.sock?db=1", Address(path="/run/r.sock", db=1)),
        ("unix://u:p@/run/r.sock", Address(path="/run/r.sock", user="u", password="p")),
        ("unix://:p%40@/run/a%20b@c.sock", Address(path="/run/a b@c.sock", password="p@")),
    ],
)
def test_a_url_of_one_server(url: str, address: Address) -> None:
    assert parse(url) == Single(address)


@pytest.mark.parametrize(
    ("query", "settings"),
    [
        ("", TlsSettings()),
        ("ssl_ca_certs=/etc/ca.pem", TlsSettings(ca_file="/etc/ca.pem")),
        ("ssl_ca_path=/etc/ca&ssl_ca_data=PEM", TlsSettings(ca_path="/etc/ca", ca_data="PEM")),
        ("ssl_certfile=c&ssl_keyfile=k&ssl_password=s", TlsSettings(cert="c", key="k", key_password="s")),
        ("ssl_check_hostname=false", TlsSettings(check_hostname=False)),
        ("ssl_check_hostname=YES", TlsSettings()),
        ("ssl_cert_reqs=none", TlsSettings(verify="none", check_hostname=False)),
        ("ssl_cert_reqs=CERT_NONE", TlsSettings(verify="none", check_hostname=False)),
        ("ssl_cert_reqs=none&ssl_check_hostname=true", TlsSettings(verify="none", check_hostname=False)),
        ("ssl_cert_reqs=optional", TlsSettings(verify="optional")),
        ("ssl_cert_reqs=CERT_REQUIRED", TlsSettings()),
        ("ssl_min_version=TLSv1.3", TlsSettings(min_version=772)),
        ("ssl_min_version=771&ssl_ciphers=HIGH", TlsSettings(min_version=771, ciphers="HIGH")),
        ("ssl_exclude_verify_flags=VERIFY_X509_STRICT", TlsSettings(no_verify_flags=("VERIFY_X509_STRICT",))),
        (
            "ssl_include_verify_flags=[VERIFY_X509_STRICT,%20VERIFY_CRL_CHECK_LEAF]",
            TlsSettings(verify_flags=("VERIFY_X509_STRICT", "VERIFY_CRL_CHECK_LEAF")),
        ),
    ],
)
def test_tls_parameters(query: str, settings: TlsSettings) -> None:
    assert parse(f"rediss://h/0?{query}") == Single(Address("h", tls=True, tls_settings=settings))


def test_the_other_schemes() -> None:
    assert parse("embedded://") == Embedded()
    assert parse("memory://") == Memory("")
    assert parse("memory://x") == Memory("x")
    assert parse("memory://a%20b/c") == Memory("a b/c")


def test_a_sentinel_url() -> None:
    assert parse("redis+sentinel://h1:26379,h2,[::1]:5/mymaster/2") == Sentinel(
        (Address("h1", 26379), Address("h2", 26379), Address("::1", 5)),
        "mymaster",
        Address("", 0, db=2),
    )
    target = parse("valkeys+sentinel://u:p@h1/my%2Fmaster?ssl_ca_certs=ca&client_name=me&protocol=3")
    tls = TlsSettings(ca_file="ca")
    assert target == Sentinel(
        (Address("h1", 26379, tls=True, tls_settings=tls, client_name="me"),),
        "my/master",
        Address("", 0, user="u", password="p", tls=True, tls_settings=tls, client_name="me", protocol=3),
    )
    assert isinstance(target, Sentinel)
    assert target.at("h9", 7) == Address(
        "h9", 7, user="u", password="p", tls=True, tls_settings=tls, client_name="me", protocol=3
    )


def test_a_cluster_url() -> None:
    assert parse("redis+cluster://h1:7000,h2") == Cluster((Address("h1", 7000), Address("h2", 6379)))
    target = parse("rediss+cluster://u:p@h1:7000,h2:7001?ssl_cert_reqs=none")
    tls = TlsSettings(verify="none", check_hostname=False)
    assert target == Cluster(
        tuple(
            Address(host, port, user="u", password="p", tls=True, tls_settings=tls)
            for host, port in (("h1", 7000), ("h2", 7001))
        )
    )
    assert isinstance(target, Cluster)
    assert target.at("h3", 1).user == "u"
    assert (target.at("h3", 1).host, target.at("h3", 1).port) == ("h3", 1)


def test_a_list_is_a_quorum() -> None:
    nodes = tuple(Single(Address(name)) for name in ("a", "b", "c"))
    assert parse(["redis://a", "redis://b", "redis://c"]) == Quorum(nodes)
    assert parse(("redis://a", Address("b"), Single(Address("c")))) == Quorum(nodes)
    assert parse(Quorum(nodes)) == Quorum(nodes)


@pytest.mark.parametrize(
    ("targets", "complaint"),
    [
        ([], "empty"),
        (["redis://a", ["redis://b"]], r"target\[1\]"),
        (["redis://a", Quorum((Memory(),))], r"target\[1\]: a quorum cannot"),
        (["redis://a", "redis://b:x"], r"target\[1\]: the port"),
        (["redis://a", None], r"target\[1\]"),
        (["redis://a", "redis://b", "redis://A:6379/1"], r"target\[2\]: .*same server"),
        (["redis://a", f"redis://u:{SECRET}@a"], r"target\[1\]: .*same server"),
        (["unix:///a", "unix:///a?db=1"], r"target\[1\]: .*same server"),
        (["memory://", "memory://"], r"target\[1\]: .*same server"),
    ],
)
def test_a_quorum_of_what_cannot_be_one(targets: list[object], complaint: str) -> None:
    with pytest.raises((ValueError, TypeError), match=complaint) as caught:
        parse(targets)
    assert SECRET not in str(caught.value)


def test_without_a_target_the_environment_decides() -> None:
    ours, theirs = {"HOLDTIGHT_URL": "redis://ours"}, {"REDIS_URL": "redis://theirs"}
    assert parse(None, env=ours | theirs) == Single(Address("ours"))
    assert parse(env=theirs) == Single(Address("theirs"))
    assert parse(None, env={"HOLDTIGHT_URL": "", **theirs}) == Single(Address("theirs"))
    assert parse("redis://given", env=ours) == Single(Address("given"))


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDTIGHT_URL", "redis://ours/5")
    assert parse() == Single(Address("ours", db=5))


def test_no_target_anywhere_names_the_ways_out() -> None:
    with pytest.raises(ValueError, match="target") as caught:
        parse(None, env={"HOLDTIGHT_URL": ""})
    for way in ("$HOLDTIGHT_URL", "$REDIS_URL", "redis://", "embedded://", "memory://"):
        assert way in str(caught.value)


def test_a_mistake_in_the_environment_is_named() -> None:
    with pytest.raises(ValueError, match=r"^\$REDIS_URL: the port"):
        parse(None, env={"REDIS_URL": "redis://h:x"})


# Each of these contains the secret, often because it is not escaped: no error may show it.
@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("", "empty"),
        (SECRET, "not a URL"),
        (f"user:{SECRET}@h:6379", "not a URL"),
        ("localhost:6379", "not a URL"),
        ("redis:/h", "not a URL"),
        ("//h", "not a URL"),
        ("://h", "not a URL"),
        (f" redis://:{SECRET}@h", "space"),
        (f"redis://:{SECRET}@h\n", "space or a control"),
        (f"redis://:{SECRET}@h\0", "control"),
        (f"http://:{SECRET}@h", "unknown scheme http://; accepted are redis://"),
        ("redis+unix:///x", "unknown scheme"),
        ("redis+sentinel+cluster://x", "unknown scheme"),
        ("sentinel://x", "unknown scheme"),
        ("unix+cluster://x", "unknown scheme"),
        (f"redis://h:{SECRET}", "port must be a whole number from 1 to 65535"),
        (f"redis://user:{SECRET}", "port"),
        ("redis://h:", "port"),
        ("redis://h:0", "port"),
        ("redis://h:65536", "port"),
        ("redis://h:-1", "port"),
        ("redis://h:+1", "port"),
        ("redis://h:1_0", "port"),
        ("redis://h:٣", "port"),  # a digit, but not one of ours
        ("redis://h:99999999999999999999", "port"),
        (f"redis://h/{SECRET}", "database"),
        ("redis://h/-1", "database"),
        ("redis://h/0/1", "database"),
        ("redis://h/1.0", "database"),
        ("redis://h//0", "database"),
        ("redis://h?db=", "database"),
        ("redis://h?db=x", "database"),
        ("redis://h/1?db=2", "two different databases"),
        ("redis://::1", r"\[::1\]"),
        ("redis://[::1", r"\[::1\]"),
        ("redis://[::1]x", r"\[::1\]"),
        ("redis://[h]", r"\[::1\]"),
        ("redis://[::1]:x", "port"),
        ("redis://a b", "space"),
        ("redis://a%20b", "host"),
        ("redis://a<b", "host"),
        ("redis://a%2Fb", "host"),
        ("redis://a..b", "host is not a host name"),
        ("redis://.h:1", "host is not a host name"),
        (f"redis://{'h' * 64}", "1 to 63 characters"),
        (f"redis://{'ü' * 60}", "host is not a host name"),
        ("redis://h1,h2", "a list of URLs is a quorum"),
        (f"redis://:se/{SECRET}@h", "%2F"),
        (f"redis://:se?{SECRET}@h", "%3F"),
        (f"redis://:se#{SECRET}@h", "%23"),
        (f"redis://:se?{SECRET}=1@h", "%3F"),
        ("redis://h#x", "%23"),
        (f"redis://:%ff{SECRET}@h", "password is not UTF-8"),
        ("redis://%ff@h", "user is not UTF-8"),
        (f"redis://:%00{SECRET}@h", "NUL"),
        (f"redis://h?{SECRET}", "name=value"),
        (f"redis://h?a%ff{SECRET}=1", "name=value"),
        (f"redis://h?pass-{SECRET}=1", "unknown parameter; accepted are client_name, db"),
        (f"redis://h?nosuch={SECRET}", "unknown parameter 'nosuch'; accepted"),
        ("redis://h?ssl=true", "unknown parameter 'ssl'"),
        ("redis://h?db=1&db=1", "'db' is given twice"),
        ("redis://h?protocol=4", "protocol must be"),
        ("redis://h?protocol=", "protocol must be"),
        ("redis://h?client_name=a%20b", "client_name"),
        ("redis://h?client_name=%C3%A4", "client_name"),
        ("redis://h?ssl_cert_reqs=none", "ssl_cert_reqs needs TLS: write rediss://"),
        ("unix:///s?ssl_ca_certs=x", "ssl_ca_certs needs TLS"),
        ("rediss://h?ssl_cert_reqs=maybe", "ssl_cert_reqs must be one of required"),
        ("rediss://h?ssl_check_hostname=", "ssl_check_hostname must be one of true"),
        ("rediss://h?ssl_min_version=5", "ssl_min_version must be one of"),
        ("rediss://h?ssl_keyfile=k", "ssl_keyfile needs ssl_certfile"),
        (
            "rediss://h?ssl_include_verify_flags=NO_SUCH",
            "ssl_include_verify_flags must be names out of VERIFY_",
        ),
        ("rediss://h?ssl_exclude_verify_flags=[]", "ssl_exclude_verify_flags must be names"),
        (f"rediss://h?ssl_certfile=c&ssl_password={SECRET}&ssl_cert_reqs=x", "ssl_cert_reqs"),
        ("unix://", "unix:///path"),
        ("unix:///", "unix:///path"),
        ("unix://run/r.sock", "unix:///path"),
        (f"unix://:{SECRET}@", "unix:///path"),
        (f"unix://:se/{SECRET}@/run/r.sock", "%2F"),
        ("unix:///run/%ff", "path is not UTF-8"),
        ("unix:///run/a%00b", "NUL"),
        ("embedded://x", "embedded:// takes nothing"),
        ("memory://%ff", "name is not UTF-8"),
        ("redis+sentinel://h", "name of the master is missing"),
        ("redis+sentinel://h//0", "name of the master is missing"),
        ("redis+sentinel:///mymaster", "host is missing"),
        ("redis+sentinel://h,/mymaster", "host is missing"),
        ("redis+sentinel://h/mymaster/x", "database"),
        ("redis+sentinel://h:x/mymaster", "port"),
        (f"redis+sentinel://u:{SECRET}@h1,u:{SECRET}@h2/mymaster", "one user and password for all hosts"),
        (f"redis://u:{SECRET}@h1,u:{SECRET}@h2", "one user and password for all hosts"),
        ("redis+cluster://", "host is missing"),
        ("redis+cluster://h1,,h2", "host is missing"),
        (f"redis+cluster://h1,h2/{SECRET}", "database"),
    ],
)
def test_a_bad_url_is_refused_without_showing_it(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        parse(url)
    shown = "".join(_whole_story(caught.value))
    assert str(caught.value).startswith("target: ")
    assert SECRET not in shown


def _whole_story(error: BaseException) -> list[str]:
    """The message with all that a traceback would print along with it."""
    story = [str(error)]
    if error.__cause__ is not None:
        story += _whole_story(error.__cause__)
    if error.__context__ is not None and not error.__suppress_context__:
        story += _whole_story(error.__context__)
    return story


@pytest.mark.parametrize("target", [b"redis://h", bytearray(b"x"), 6379, 1.5, True, {"redis://h"}, {}, object()])
def test_what_is_no_target_at_all(target: object) -> None:
    with pytest.raises(TypeError, match=rf"^target: expected a URL as str, .*not {type(target).__name__}$"):
        parse(target)


_labels = st.text(ascii_lowercase + digits + "-_", min_size=1, max_size=20)
_hosts = st.one_of(
    st.lists(_labels, min_size=1, max_size=3).map(".".join),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
)
_secrets = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(
    host=_hosts,
    port=st.integers(1, 65535),
    db=st.integers(0, 2**31 - 1),
    user=st.none() | _secrets,
    password=st.none() | _secrets,
    tls=st.booleans(),
    name=st.none() | st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1),
)
def test_any_address_survives_being_written_as_a_url(
    host: str, port: int, db: int, user: str | None, password: str | None, tls: bool, name: str | None
) -> None:
    login = quote(user or "", safe="") + ("" if password is None else ":" + quote(password, safe="")) + "@"
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    query = "" if name is None else f"?client_name={quote(name, safe='')}"
    target = parse(f"{'rediss' if tls else 'redis'}://{login}{place}/{db}{query}")
    assert target == Single(Address(host, port, db=db, user=user, password=password, tls=tls, client_name=name))
    assert parse(target.display()) == Single(Address(host, port, db=db, tls=tls))


@given(path=_secrets, db=st.integers(0, 99), password=_secrets)
def test_any_socket_survives_being_written_as_a_url(path: str, db: int, password: str) -> None:
    url = f"unix://:{quote(password, safe='')}@/{quote(path)}?db={db}"
    assert parse(url) == Single(Address(path="/" + path, db=db, password=password))


@given(st.text())
def test_garbage_is_a_value_error_or_a_target(text: str) -> None:
    for url in (text, f"redis://{text}", f"redis+sentinel://{text}", f"unix://{text}", f"rediss://h?{text}"):
        with contextlib.suppress(ValueError):
            assert parse(url).display()


def test_importing_it_loads_no_client_library_nor_asyncio_nor_ssl() -> None:
    code = (
        "import sys, holdtight.config.url as url; url.parse('rediss://u:p@h/1?ssl_cert_reqs=none'); "
        "print(sorted(sys.modules.keys() & {'redis', 'valkey', 'asyncio', 'ssl', 'pickle', 'concurrent'}))"
    )
    source = Path(__file__).parents[2] / "src"
    said = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(source)},
    )
    assert said.stdout.strip() == "[]"
