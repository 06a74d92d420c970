"""Credentials: a fixed login, or a callable that is called at every connect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

__all__ = ["Credentials", "FromProvider", "Login", "a_value_like", "check_credentials", "check_login", "from_provider"]

Credentials: TypeAlias = "Login | Callable[[], object]"


@dataclass(frozen=True, slots=True)
class Login:
    """The arguments of AUTH; without a user it is the server's `default` user."""

    user: str | None
    password: str = field(repr=False)


def check_credentials(value: object, argument: str = "credentials") -> Credentials | None:
    """Converts the caller's credentials to a fixed Login, a callable to call at every connect, or None."""
    if value is None or isinstance(value, Login):
        return value
    if isinstance(value, str):
        if not value:
            raise ValueError(f"{argument}: the password is empty; leave {argument} out to connect without a login")
        return Login(None, value)
    if isinstance(value, tuple):
        return _login_of(cast("tuple[object, ...]", value), argument)
    if callable(value):
        return value
    raise TypeError(
        f"{argument}: expected a password, a (user, password) tuple or a callable that gives either, "
        f"not {a_value_like(value)}"
    )


def check_login(value: object, argument: str = "credentials") -> Login:
    """Converts the result of a credentials callable; accepts (password,) too, as redis-py's providers return it."""
    if isinstance(value, Login):
        return value
    if isinstance(value, str):
        return Login(None, value)
    if isinstance(value, tuple | list):
        return _login_of(tuple(cast("Iterable[object]", value)), f"{argument}: the callable's answer")
    raise TypeError(
        f"{argument}: the callable must give a password or a (user, password) tuple, it gave {a_value_like(value)}"
    )


def _login_of(value: tuple[object, ...], argument: str) -> Login:
    user, password = (None, *value) if len(value) == 1 else value if len(value) == 2 else (None, None)
    if (user is None or isinstance(user, str)) and isinstance(password, str):
        return Login(user or None, password)
    shape = ", ".join(type(part).__name__ for part in value)
    raise TypeError(f"{argument}: expected (user, password), both str, not ({shape})")


def a_value_like(value: object) -> str:
    """Names a value by its type only: the value itself may be a secret."""
    return f"a value of type {type(value).__name__}"


@dataclass(frozen=True, slots=True)
class FromProvider:
    """A credential provider object of redis-py or valkey-py, as a credentials callable."""

    provider: object
    method: Literal["get_credentials", "get_credentials_async"]

    def __call__(self) -> object:
        return getattr(self.provider, self.method)()


def from_provider(provider: object, *, asynchronous: bool, where: str) -> FromProvider:
    """Chooses the method as the client would: an asyncio client prefers an implemented `get_credentials_async`."""

    def written(method: str) -> bool:
        # The libraries' base class has both methods, but implements neither.
        makers = [cls for cls in type(provider).__mro__ if method in cls.__dict__]
        return bool(makers) and makers[0].__name__ != "CredentialProvider"

    if written("get_credentials_async") and (asynchronous or not written("get_credentials")):
        return FromProvider(provider, "get_credentials_async")
    if written("get_credentials"):
        return FromProvider(provider, "get_credentials")
    raise TypeError(f"{where}: {type(provider).__qualname__}, a credential provider without get_credentials()")
