"""The pytest plugin, played by test runs of its own."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHOUT = ("-p", "no:cacheprovider", "-p", "no:valkey", "-p", "no:asyncio")
OURS = ("-p", "holdtight.testing", *WITHOUT)


def run(pytester: pytest.Pytester, tests: str, *args: str, passed: int = 0, failed: int = 0, errors: int = 0) -> str:
    """Runs these tests with the plugin, in this process. Returns what it printed."""
    pytester.makepyfile(tests)
    result = pytester.runpytest_inprocess(*(args or OURS))
    result.assert_outcomes(passed=passed, failed=failed, errors=errors)
    return result.stdout.str()


def test_each_test_has_a_store_of_its_own_for_both_colours(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        import asyncio
        import pytest
        from holdtight import AsyncLocks, Locks, LockTimeout

        @pytest.mark.parametrize("time", [1, 2])
        def test_fresh(locks, async_locks, time):
            assert isinstance(locks, Locks) and isinstance(async_locks, AsyncLocks)
            assert locks.inspect("a").fence is None, "nobody was here before"
            with locks.lock("a"):
                async def elsewhere():
                    assert await async_locks.lock("a").try_acquire() is None
                asyncio.run(elsewhere())

        def test_alone(async_locks):
            async def main():
                async with async_locks.lock("a"):
                    pass
            asyncio.run(main())

        def test_left_held(locks):
            global kept
            kept = locks.lock("a").acquire()

        def test_after(locks):
            with locks.lock("a", wait=0):
                pass
            kept.release()
        """,
        passed=5,
    )


def test_a_test_that_asks_for_the_clock_has_the_locks_on_it(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        import asyncio
        import pytest
        from holdtight import LeaseLost

        def test_sync(locks, clock):
            lease = locks.lock("a", ttl=5, renew=False).acquire()
            clock.advance(5)
            assert lease.lost

        def test_the_order_of_the_arguments_does_not_matter(clock, locks):
            with locks.lock("a", ttl=5):
                clock.advance(50)

        def test_async(async_locks, clock):
            async def main():
                with pytest.raises(LeaseLost):
                    async with async_locks.lock("a", ttl=5, renew=False):
                        await clock.advance(5)
            asyncio.run(main())

        @pytest.mark.usefixtures("clock")
        def test_by_a_mark(locks):
            assert locks.place.clock() == 0

        @pytest.fixture
        def later(clock):
            return clock

        def test_by_another_fixture(locks, later):
            assert locks.place.clock() == 0
            later.advance(3)
            assert locks.place.clock() == 3

        def test_without_it_time_is_real(locks):
            assert locks.place.clock() != 0
        """,
        passed=6,
    )


def test_fixtures_of_the_project_win(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        import pytest

        @pytest.fixture
        def clock():
            return "a clock of the project's own"

        @pytest.fixture
        def holdtight_options():
            return {"ttl": 7, "namespace": "tests"}

        def test_clock(locks, clock):
            assert clock == "a clock of the project's own"
            assert (locks.settings.ttl, locks.settings.namespace) == (7, "tests")
            with locks.lock("a"):
                pass

        class TestOther:
            @pytest.fixture
            def locks(self):
                return "other locks"

            def test_locks(self, locks, async_locks):
                assert locks == "other locks"
                assert async_locks.settings.ttl == 7
        """,
        passed=2,
    )


def test_an_embedded_server_can_be_chosen_for_all_or_for_one(pytester: pytest.Pytester) -> None:
    tests = """
        import asyncio
        import pytest

        MARKS

        @pytest.mark.parametrize("time", [1, 2])
        def test_real(locks, async_locks, time):
            assert not locks.place.display.startswith("memory")
            assert locks.inspect("a").fence is None
            with locks.lock("a"):
                async def elsewhere():
                    assert await async_locks.lock("a").try_acquire() is None
                asyncio.run(elsewhere())

        @pytest.mark.holdtight_store("memory")
        def test_memory(locks, clock):
            assert locks.place.display == "memory://"
        """
    pytester.makeini("[pytest]\nholdtight_store = embedded")
    run(pytester, tests.replace("MARKS", ""), *OURS, "--strict-markers", passed=3)
    pytester.makeini("[pytest]")
    run(pytester, tests.replace("MARKS", 'pytestmark = pytest.mark.holdtight_store("embedded")'), passed=3)


def test_a_real_server_has_no_clock_and_says_so(pytester: pytest.Pytester) -> None:
    output = run(
        pytester,
        """
        import pytest
        @pytest.mark.holdtight_store("embedded")
        def test_clock(locks, clock): ...
        """,
        errors=1,
    )
    assert "the fixture clock needs the memory store: a real server has its own clock" in output


def test_an_unknown_store_is_named(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nholdtight_store = redis")
    output = run(pytester, "def test_a(locks): ...", errors=1)
    assert "holdtight_store must be one of memory, embedded, not 'redis'" in output


def test_a_clock_that_comes_too_late_is_an_error(pytester: pytest.Pytester) -> None:
    output = run(
        pytester,
        """
        def test_late(locks, request):
            request.getfixturevalue("clock")
        """,
        failed=1,
    )
    assert "requested after locks or async_locks" in output


def test_a_thread_that_still_waits_at_the_end_is_woken_with_an_error(pytester: pytest.Pytester) -> None:
    output = run(
        pytester,
        """
        import threading
        import pytest

        raised = []

        def test_left_waiting(locks, clock):
            def wait():
                try:
                    locks.lock("a").acquire(wait=5)
                except RuntimeError as error:
                    raised.append(error)
            global thread, kept
            kept = locks.lock("a").acquire()
            thread = threading.Thread(target=wait)
            thread.start()
            clock.until_waiting()

        def test_after():
            thread.join(10)
            assert not thread.is_alive()
            assert "when its test ended" in str(raised[0])
            kept.release()
        """,
        passed=2,
    )
    assert "2 passed" in output


def test_with_pytest_asyncio(pytester: pytest.Pytester) -> None:
    pytest.importorskip("pytest_asyncio")
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function")
    run(
        pytester,
        """
        import asyncio
        import pytest
        from holdtight import LockTimeout

        async def test_wait(async_locks, clock):
            async with async_locks.lock("a"):
                task = asyncio.create_task(async_locks.lock("a").acquire(wait=5))
                await clock.advance(5)
                with pytest.raises(LockTimeout):
                    task.result()

        async def test_real_time(async_locks, locks):
            async with async_locks.lock("a"):
                assert locks.lock("a").try_acquire() is None
        """,
        *OURS[:-2],
        passed=2,
    )


def test_it_can_be_asked_for_in_a_conftest_and_be_there_already(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["holdtight.testing"]')
    pytester.makepyfile("def test_a(locks, clock): clock.advance(5)")
    for args in (WITHOUT, OURS):
        pytester.runpytest_subprocess(*args).assert_outcomes(passed=1)


def test_the_entry_point_leads_to_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ((name, module),) = project["entry-points"]["pytest11"].items()
    assert name == module, "or asking for it in a conftest would load it twice"
    for needed in ("locks", "async_locks", "clock", "pytest_addoption"):
        assert hasattr(import_module(module), needed)


def python(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_loading_it_loads_no_more_than_holdtight_itself() -> None:
    loaded = python(
        "import pytest, holdtight, sys; before = set(sys.modules)\n"
        "import holdtight.testing; print(sorted(set(sys.modules) - before))"
    )
    assert loaded.strip() == "['holdtight.testing', 'holdtight.testing.plugin']"


def test_clock_and_lose_do_without_pytest() -> None:
    script = """
import sys
sys.modules["pytest"] = None
from holdtight import Locks
from holdtight.testing import Clock, lose
clock = Clock()
lease = Locks(clock.store()).lock("a").acquire()
clock.advance(100)
lease.check()
lose(lease)
print(lease.reason.value)
"""
    assert python(script).strip() == "taken"


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Clokc'"):
        import_module("holdtight.testing").Clokc  # noqa: B018
