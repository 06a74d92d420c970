"""The answers of the API, as the OpenAPI document describes them. Clients must expect members that are not here yet."""

from typing import Any, Literal

import msgspec

from holdtight.server.bodies import KindName

__all__ = ["ANSWERS", "Answer"]


class Answer(msgspec.Struct, forbid_unknown_fields=True):
    pass


class Opened(Answer):
    session: str
    id: str
    ttl: float
    valid: float


class Told(Answer):
    lease: str
    name: str
    kind: KindName
    fence: int
    reason: str | None


class Beaten(Answer):
    ttl: float
    valid: float
    leases: list[Told]
    lost: list[Told]
    unknown: list[Told]


class Closed(Answer):
    released: int


class Granted(Answer):
    state: Literal["held"]
    lease: str
    name: str
    kind: KindName
    n: int
    fence: int
    ttl: float
    valid: float
    waited: float
    previous_expired: bool


class HolderInShort(Answer):
    host: str | None
    pid: int | None
    label: str | None
    since: float | None
    left: float | None


class Waiting(Answer):
    state: Literal["waiting"]
    lease: str
    name: str
    position: int
    holder: HolderInShort | None
    waited: float
    keep: float


class Renewed(Answer):
    lease: str
    name: str
    fence: int
    ttl: float
    valid: float


class Released(Answer):
    released: bool


class HandedOut(Answer):
    text: str
    ttl: float


class ForcedRelease(Answer):
    released: int
    fence: int | None


class HolderShown(Answer):
    owner: str
    fence: int | None
    host: str | None
    pid: int | None
    label: str | None
    session: str | None
    since: float | None
    age: float | None
    left: float | None
    n: int
    waits_for: str | None


class WaiterShown(Answer):
    owner: str
    host: str | None
    pid: int | None
    label: str | None
    session: str | None
    since: float | None
    age: float | None
    kind: KindName
    n: int


class Row(Answer):
    name: str
    kind: KindName | None
    held: int
    holders: list[HolderShown]
    waiting: int
    oldest_wait: float | None
    fence: int | None
    since: float | None
    age: float | None
    left: float | None


class LockList(Answer):
    locks: list[Row]
    next: str | None
    total: int
    age: float


class Times(Answer):
    n: int
    p50: float | None
    p95: float | None
    p99: float | None
    buckets: list[int]


class LockShown(Answer):
    name: str
    kind: KindName | None
    fence: int | None
    holders: list[HolderShown]
    waiters: list[WaiterShown]
    waiting: int
    history: list[dict[str, Any]]
    wait: Times
    hold: Times
    template: str
    suggested_ttl: float | None
    at: float


class LeaderShown(HolderInShort):
    fence: int | None


class Leader(Answer):
    name: str
    leader: LeaderShown | None
    fence: int


class Node(Answer):
    id: str
    type: Literal["owner", "lock"]
    text: str
    cycle: bool


class Edge(Answer):
    type: Literal["waits_for", "held_by"]
    start: str = msgspec.field(name="from")
    to: str
    name: str
    cycle: bool
    session: bool


class Graph(Answer):
    nodes: list[Node]
    edges: list[Edge]
    cycles: list[list[str]]


class Minute(Answer):
    minute: int
    granted: int
    released: int
    lost: int
    timed_out: int
    forced: int
    expired: int
    p50: float | None
    p95: float | None
    p99: float | None


class Template(Answer):
    template: str
    wait: Times
    hold: Times


class Stats(Answer):
    held: int
    waiting: int
    locks: int
    lost: int | None
    rate: float | None
    minutes: list[Minute]
    templates: list[Template]
    sampled: bool
    at: float


class FindingShown(Answer):
    id: str
    severity: str
    means: str
    change: str
    seen: str | None = None
    node: str | None = None


class Examined(Answer):
    name: str
    up: bool
    findings: list[FindingShown]


class Nodes(Answer):
    nodes: list[Examined]
    namespace: str


class SessionShown(Answer):
    id: str
    token: str
    label: str | None
    host: str | None
    pid: int | None
    opened: float
    ttl: float
    left: float
    leases: int
    names: list[str]
    waiting: int
    lost: int


class SessionList(Answer):
    sessions: list[SessionShown]
    next: str | None
    total: int


class Record(Answer):
    id: str
    at: float
    action: str
    name: str
    kind: KindName | None
    holders: list[HolderShown]
    fence: int
    next: str | None
    by: str
    reason: str
    host: str | None
    pid: int | None


class Records(Answer):
    records: list[Record]
    next: str | None


class Me(Answer):
    token: str
    role: Literal["read", "lock", "admin"]
    prefixes: list[str]
    csrf: str | None


ANSWERS: dict[str, dict[int, type[Answer]]] = {
    "session/open": {201: Opened},
    "session/beat": {200: Beaten},
    "session/close": {200: Closed},
    "acquire": {200: Granted, 202: Waiting},
    "renew": {200: Renewed},
    "release": {200: Released},
    "downgrade": {200: Granted},
    "detach": {200: HandedOut},
    "adopt": {200: Granted},
    "force-release": {200: ForcedRelease},
    "force-close": {200: Closed},
    "locks": {200: LockList},
    "lock": {200: LockShown},
    "leader": {200: Leader},
    "graph": {200: Graph},
    "stats": {200: Stats},
    "nodes": {200: Nodes},
    "sessions": {200: SessionList},
    "audit": {200: Records},
    "me": {200: Me},
}
"""By path below /v1/ and status."""
