"""The lock service with a master that Sentinels name."""

from __future__ import annotations

import asyncio

from tests.service.calling import caller
from tests.support.sentinels import Topology


def test_a_session_of_the_service_and_its_lease_outlive_a_failover(topology: Topology) -> None:
    async def main() -> None:
        async with caller(topology.url) as one, caller(topology.url) as two:
            session = await one.session(ttl=60)
            held = await one.post("acquire", name="a", session=session, request="r")
            await asyncio.to_thread(topology.failover)
            async with asyncio.timeout(60):
                while True:  # a client asks again after 503
                    answer = await two.client.post("/v1/session/beat", json={"session": session})
                    if answer.status_code != 503:
                        break
                    await asyncio.sleep(0.1)
            assert [each["fence"] for each in answer.json()["leases"]] == [held["fence"]]
            assert (await two.post("acquire", name="a", session=session, request="r"))["fence"] == held["fence"]
            assert (await one.get("sessions"))["total"] == 1
            assert (await two.post("session/close", session=session)) == {"released": 1}

    asyncio.run(main())
