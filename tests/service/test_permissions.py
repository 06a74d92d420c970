"""The rights that docs/permissions.md names are enough for the service."""

from __future__ import annotations

import re
from pathlib import Path

from tests.service.calling import Caller, play
from tests.support.raw import RawClient
from tests.support.servers import StartServer

PAGE = (Path(__file__).parents[2] / "docs" / "permissions.md").read_text("utf-8")


def test_a_user_with_the_rights_of_the_page_runs_the_service(start_server: StartServer) -> None:
    server = start_server()
    (user,) = re.findall(r"```\n(ACL SETUSER locker .*?)```", PAGE, re.DOTALL)
    more: list[str] = re.findall(r"```\n(\s+\+[^`]*)```", PAGE)
    rights = " ".join([user, *more]).split()
    admin = RawClient(("127.0.0.1", server.port))
    admin.call(*rights)
    admin.close()

    async def scene(one: Caller) -> None:
        session = await one.session()
        held = await one.post("acquire", name="a", session=session, request="r")
        await one.post("acquire", name="a", ttl=30, request="s", stay=True, wait=1, expect=202)
        await one.post("session/beat", session=session)
        await one.app.service.history.write()
        for look in ("locks", "stats", "graph", "nodes", "sessions", "audit"):
            await one.get(look)
        shown = await one.get("lock", name="a")
        assert [event["kind"] for event in shown["history"]] == ["granted"]
        assert shown["holders"][0]["session"] is not None
        await one.post("force-release", name="a", reason="test")
        await one.post("release", lease=held["lease"], expect=410)
        await one.post("session/close", session=session)

    play(server.url.replace("redis://", "redis://locker:secret@"), scene)
