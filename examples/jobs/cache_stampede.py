"""Cache stampede: an entry ends, and 100,000 requests of four services want it at once.

All of them find nothing, and all of them ask the database. `python cache_stampede.py 4000` plays it with fewer.
"""

import asyncio
import sys

from _show import show, tell, wait_for
from redis.asyncio import BlockingConnectionPool, Redis

from holdtight import AsyncLocks

SERVICES = 4
REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000


async def query(redis):
    """The expensive question to the database."""
    await redis.incr("queries")
    await asyncio.sleep(0.3)
    return 1.08


async def cache_aside(url, count):
    # An event loop with so many tasks is slow to connect: no timeouts.
    waits = {"timeout": None, "socket_timeout": None, "socket_connect_timeout": None}
    pool = BlockingConnectionPool.from_url(url, max_connections=50, **waits)
    async with Redis(connection_pool=pool) as redis:

        async def rate():
            found = await redis.get("rate")
            if found is not None:
                return float(found)
            value = await query(redis)
            await redis.set("rate", value, ex=60)
            return value

        return await asyncio.gather(*(rate() for _ in range(count)))


async def single_flight(url, count):
    async with AsyncLocks(url) as locks, Redis.from_url(url) as redis:

        @locks.single_flight("rate", ttl=60)
        async def rate():
            return await query(redis)

        return await asyncio.gather(*(rate() for _ in range(count)))


def service(url, requests, count):
    yield "is ready."
    answers = asyncio.run(requests(url, count))
    yield f"has answered {len(answers)} requests: {set(answers)}."


def rush(stage, requests):
    services = [stage.actor(f"service {n}", service, requests, REQUESTS // SERVICES) for n in range(1, SERVICES + 1)]
    for each in services:
        each.step()
    for each in services:
        each.begin()
    for each in services:
        wait_for(each.answered, within=300)  # a hundred thousand requests take a while
        each.answer()
    queries = int(stage.redis.get("queries"))
    tell(f"The database was asked {queries} times.")
    return queries != 1


if __name__ == "__main__":
    show(__doc__, rush, without=cache_aside, with_it=single_flight)
