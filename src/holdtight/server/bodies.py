"""The bodies of requests: decoded strictly, and the source of the OpenAPI document."""

from typing import Annotated, Literal

import msgspec

__all__ = [
    "Acquire",
    "Adopt",
    "Beat",
    "Close",
    "Detach",
    "Downgrade",
    "ForceClose",
    "ForceRelease",
    "Login",
    "Open",
    "Release",
    "Renew",
]

Duration = int | float | str
"""Seconds, or a text as "250ms", "5s", "2m", "1h"."""
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
Label = Annotated[str, msgspec.Meta(max_length=128)]
Request = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
KindName = Literal["exclusive", "shared", "permits"]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class Body(msgspec.Struct, forbid_unknown_fields=True):
    pass


class Open(Body):
    ttl: Duration = 30
    label: Label | None = None
    host: Annotated[str, msgspec.Meta(max_length=253)] | None = None
    pid: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)] | None = None


class Beat(Body):
    session: Text


class Close(Body):
    session: Text


class Acquire(Body):
    name: str
    session: Text | None = None
    ttl: Duration | None = None
    kind: KindName = "exclusive"
    n: Count | None = None
    permits: Count | None = None
    request: Request | None = None
    wait: Duration = 0
    stay: bool = False
    label: Label | None = None
    holding: Annotated[list[Text], msgspec.Meta(max_length=64)] = []


class Renew(Body):
    lease: Text
    ttl: Duration | None = None


class Release(Body):
    lease: Text
    again: bool = False


class Downgrade(Body):
    lease: Text


class Detach(Body):
    lease: Text
    ttl: Duration | None = None


class Adopt(Body):
    text: Text
    session: Text | None = None
    ttl: Duration | None = None
    request: Request | None = None
    label: Label | None = None


class ForceRelease(Body):
    name: str
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
    owner: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{12}$")] | None = None


class ForceClose(Body):
    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class Login(Body):
    token: Text
