"""The code of docs/integrations.md and docs/tuning.md runs, beside what the pages leave out."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest

from holdtight import AsyncLease, Locks

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, heading: str = "") -> list[str]:
    """The blocks of Python code below a heading; of the whole page without one."""
    text = (DOCS / page).read_text()
    if heading:
        text = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert found
    return [each.replace("redis://localhost:6379/0", "memory://pages") for each in found]


def run(code: str, **world: Any) -> dict[str, Any]:
    exec(compile(code, "docs", "exec"), world)
    return world


def test_tuning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    watching, loading = blocks("tuning.md")
    with Locks("memory://tuning-page") as locks:
        run(watching, locks=locks)
    made = list[Locks]()

    def locks_of(**options: Any) -> None:
        made.append(Locks("memory://tuning-page", **options))

    run("from holdtight import tuning\n" + loading, Locks=locks_of)
    made[0].close()


DJANGO = """
import django, sys
from django.conf import settings

{first}
apps = [each for each in INSTALLED_APPS if each is not ...]
database = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": "db"}}}}
settings.configure(INSTALLED_APPS=apps, HOLDTIGHT=HOLDTIGHT, DATABASES=database)
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)

{second}

class Account:
    objects = None
    balance = 1
    def get(self, pk): return self
    def save(self): print("saved", self.balance)

Account.objects = Account()
deposit(7, 41)
locks.close()
"""


def test_django(tmp_path: Path) -> None:
    first, second = blocks("integrations.md", "Django")
    code = DJANGO.format(first=first, second=second)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "saved 42\n", done.stderr


def test_fastapi() -> None:
    import fastapi
    import httpx

    [code] = blocks("integrations.md", "Starlette and FastAPI")
    world = run(code, FastAPI=fastapi.FastAPI, Depends=fastapi.Depends, Annotated=Annotated, AsyncLease=AsyncLease)

    async def pay(app: fastapi.FastAPI) -> int:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://page")
        async with app.router.lifespan_context(app), client:
            return (await client.post("/orders/42/pay")).status_code

    assert asyncio.run(pay(world["app"])) == 200


def test_celery(monkeypatch: pytest.MonkeyPatch) -> None:
    import celery  # type: ignore[import-untyped]

    monkeypatch.setenv("HOLDTIGHT_URL", "memory://pages")
    [code] = blocks("integrations.md", "Celery")
    world = run(code, app=celery.Celery("page", set_as_current=False), __name__="page")
    for task in ("ship", "bill"):
        assert world[task].apply(args=(7,)).successful()


def test_apscheduler() -> None:
    from apscheduler.schedulers.background import BackgroundScheduler  # type: ignore[import-untyped]

    [code] = blocks("integrations.md", "APScheduler")
    with Locks("memory://pages") as locks:
        world = run(
            "from holdtight.contrib.apscheduler import OnceExecutor\n" + code,
            BackgroundScheduler=BackgroundScheduler,
            Locks=lambda: locks,
            bill=print,
        )
        assert [job.id for job in world["scheduler"].get_jobs()] == ["bill"]
