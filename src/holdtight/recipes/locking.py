"""Caches what a job needs for each name, such as its lock. Metrics count these locks under the job's template."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from holdtight.base.recent import Recent

__all__ = ["PerName", "job_locks", "locks_of_single_owners"]

T = TypeVar("T")


class PerName(Generic[T]):
    """A cache of what `make` returns for a name, for the names that were used last."""

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make
        self._recent: Recent[str, T] = Recent()

    def of(self, name: str) -> T:
        found = self._recent.get(name)
        return self._recent.put(name, self._make(name)) if found is None else found


def job_locks(locks: Any, options: dict[str, Any], template: object) -> Callable[[str], Any]:
    """Returns a function from a name to its lock object. All calls of a job pass the same options, so the name alone is
    the key. If the job has a callable in place of a template, events have the pattern of the profile."""
    locks.lock("any name", **options)  # raises for wrong options when the function is decorated

    def make(name: str) -> Any:
        lock = locks.lock(name, **options)
        if not isinstance(template, str):
            return lock
        return type(lock)(locks, name, locks.terms_of(lock.terms.options._replace(template=template)))

    return PerName(make).of


def locks_of_single_owners(locks: Any, options: dict[str, Any], template: object) -> Callable[[str], Any]:
    """The same for a job whose scripts compare owners. The members of a cohort share one, so a profile must not make
    these locks a cohort's."""
    return job_locks(locks, {**options, "cohort": False}, template)
