"""The graph of holders and waiters, as nodes and edges, and its cycles."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from holdtight.base.values import Holder, LockInfo, Waiter
from holdtight.server.shapes import owner_digits, owner_id

__all__ = ["graph_of"]

MOST_NODES = 400
MOST_OF_A_LOCK = 20


def graph_of(
    wanted: Sequence[LockInfo],
    awaiting: Mapping[str, Sequence[tuple[Holder, str]]],
    sessions: Collection[bytes] = (),
    sees: Callable[[str], bool] = bool,
) -> dict[str, Any]:
    """Of locks that somebody waits for. A holder that waits for another lock itself has an edge to it, by way of what
    it has published for the search for deadlocks: `awaiting` has those, each with the lock that it holds. An edge of an
    owner in one of these sessions, given by id, says so: a session is no thread, and what one of its owners waits for
    need not stop the others."""
    awaited = {info.name for info in wanted}
    nodes: dict[str, dict[str, Any]] = {}
    edges: list[dict[str, Any]] = []

    def person(each: Holder | Waiter) -> tuple[str, bool]:
        key = f"owner:{owner_digits(each.owner)}"
        nodes.setdefault(key, {"id": key, "type": "owner", "text": _who(each), "cycle": False})
        return key, owner_id(each.owner) in sessions

    def add_wait(each: Holder | Waiter, lock: str, name: str) -> None:
        key, session = person(each)
        edges.append({"type": "waits_for", "from": key, "to": lock, "name": name, "cycle": False, "session": session})

    def add_hold(lock: str, each: Holder | Waiter, name: str) -> None:
        key, session = person(each)
        edges.append({"type": "held_by", "from": lock, "to": key, "name": name, "cycle": False, "session": session})

    for info in wanted:
        if len(nodes) >= MOST_NODES:
            break
        lock = f"lock:{info.name}"
        nodes[lock] = {"id": lock, "type": "lock", "text": info.name, "cycle": False}
        merged: set[str] = set()
        for holder in info.holders[:MOST_OF_A_LOCK]:
            add_hold(lock, holder, info.name)
        for holder, held in awaiting.get(info.name, ()):
            if not sees(held) or len(merged) >= MOST_OF_A_LOCK:
                continue
            add_wait(holder, lock, info.name)
            merged.add(_where(holder))
            if held not in awaited and f"lock:{held}" not in nodes:
                nodes[f"lock:{held}"] = {"id": f"lock:{held}", "type": "lock", "text": held, "cycle": False}
                add_hold(f"lock:{held}", holder, held)
        for waiter in info.waiters[:MOST_OF_A_LOCK]:
            if _where(waiter) in merged and waiter.host is not None:
                continue  # the same thread or task, as the holder of another lock
            add_wait(waiter, lock, info.name)
    cycles = _cycles(nodes, edges)
    for cycle in cycles:
        around = set(cycle)
        for key in cycle:
            nodes[key]["cycle"] = True
        for edge in edges:
            if edge["from"] in around and edge["to"] in around:
                edge["cycle"] = True
    return {"nodes": list(nodes.values()), "edges": edges, "cycles": cycles}


def _who(each: Holder | Waiter) -> str:
    where = f"{each.host}:{each.pid}" if each.host and each.pid else each.host or owner_digits(each.owner)
    return f"{each.label} ({where})" if each.label else where


def _where(each: Holder | Waiter) -> str:
    return f"{each.host} {each.pid} {each.label}"


def _cycles(nodes: dict[str, dict[str, Any]], edges: list[dict[str, Any]]) -> list[list[str]]:
    """Each strongly connected part with more than one node (Tarjan, without recursion)."""
    out: dict[str, list[str]] = {key: [] for key in nodes}
    for edge in edges:
        out[edge["from"]].append(edge["to"])
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(out[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for target in rest:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(out[target])))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part: list[str] = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        part.append(member)
                        if member == node:
                            break
                    if len(part) > 1:
                        found.append(part[::-1])
    return found
