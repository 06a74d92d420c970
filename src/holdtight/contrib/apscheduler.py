# mypy: disable-error-code="import-untyped, misc, no-any-return, no-untyped-call"
# pyright: basic, reportMissingTypeStubs=false
# APScheduler 3 has no types.
"""APScheduler 3: a job that several schedulers share runs once per firing."""

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from apscheduler.executors.base import run_job
from apscheduler.executors.pool import ThreadPoolExecutor

if TYPE_CHECKING:
    from holdtight import Duration
    from holdtight.sync.locks import Locks

__all__ = ["OnceExecutor"]


class OnceExecutor(ThreadPoolExecutor):
    """Runs jobs in threads, as APScheduler's own `threadpool`. If several schedulers have the same job (one job store
    that they share, or `add_job` with the same id in each), one of them runs each firing. The others get a `Skipped` as
    the job's value.

    A firing is the job's id and the time at which it was due, not the time at which it started. While a run lasts, no
    other scheduler starts the next one.

    Example:
        scheduler = BackgroundScheduler(executors={"default": OnceExecutor(Locks())})
        scheduler.add_job(bill, "cron", hour=3, id="bill")
    """

    def __init__(
        self,
        locks: "Locks",
        max_workers: int = 10,
        *,
        keep: "Duration" = "24h",
        ttl: "Duration" = 30,
        pool_kwargs: dict[str, Any] | None = None,
    ) -> None:
        """`keep` is how long a firing is remembered; it must be longer than schedulers can be late. `ttl` is the price
        of a crash: if a scheduler dies in a run, the others skip firings for that long."""
        super().__init__(max_workers, pool_kwargs)
        self._locks, self._options = locks, {"at_least": keep, "ttl": ttl}
        self._once("x", "x", lambda: None)  # raises at once for a wrong option, or a quorum

    def _once(self, name: str, per: str, run: Any) -> Any:
        options: Any = self._options
        return self._locks.once(lambda: name, per=lambda: per, **options)(run)

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:
        future = self._pool.submit(self._run, job, run_times)

        def done(future: Any) -> None:
            error = future.exception()
            if error is not None:
                self._run_job_error(job.id, error, error.__traceback__)
            else:
                self._run_job_success(job.id, future.result())

        future.add_done_callback(done)

    def _run(self, job: Any, run_times: list[datetime]) -> list[Any]:
        events: list[Any] = []
        for run_time in run_times:
            per = run_time.astimezone(UTC).isoformat()
            run = self._once(f"apscheduler:{job.id}", per, lambda: job.func(*job.args, **job.kwargs))
            events += run_job(_Firing(job, run), job._jobstore_alias, [run_time], self._logger.name)
        return events


class _Firing:
    """A job as `run_job` needs it, with another function."""

    args: tuple[Any, ...] = ()

    def __init__(self, job: Any, run: Any) -> None:
        self.id, self.misfire_grace_time, self._job, self._do = job.id, job.misfire_grace_time, job, run
        self.kwargs: dict[str, Any] = {}

    def func(self) -> Any:
        value = self._do()
        if type(value).__name__ == "Skipped":
            logging.getLogger("holdtight").info("job %s is skipped here: %s elsewhere", self.id, value.why)
        return value

    def __str__(self) -> str:
        return str(self._job)
