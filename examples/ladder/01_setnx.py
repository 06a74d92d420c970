"""Rung 1, SETNX: one lock for all processes, not one in each.

Below, every process has a lock of its own (threading.Lock). It keeps the threads of that process apart, but
not processes: two of them read the same stock, and one of two sales is lost.
"""

import threading

from _stage import Stage, climb, tell
from redis import Redis


def with_a_local_lock(url):
    shop = Redis.from_url(url)
    with threading.Lock():
        stock = int(shop.get("stock"))
        yield f"reads the stock: {stock}."
        shop.set("stock", stock - 1)
    yield "has sold one."


def with_setnx(url):
    shop = Redis.from_url(url)
    while not shop.setnx("lock", "taken"):
        yield "is told that somebody has the lock."
    stock = int(shop.get("stock"))
    yield f"reads the stock: {stock}."
    shop.set("stock", stock - 1)
    shop.delete("lock")
    yield "has sold one."


def a_sale_is_forgotten(stage: Stage, seller) -> bool:
    stage.redis.set("stock", 10)
    ann, bob = stage.actor("Ann", seller), stage.actor("Bob", seller)
    ann.step()
    bob.step()
    ann.step()
    while bob.step() != "has sold one.":
        pass
    left = int(stage.redis.get("stock"))
    tell(f"Of 10 there are {left} left, after two sales.")
    return left != 8


if __name__ == "__main__":
    climb(__doc__, a_sale_is_forgotten, below=with_a_local_lock, here=with_setnx)
