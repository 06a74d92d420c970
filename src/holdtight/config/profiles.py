"""Defaults per name pattern: `profiles={"orders:*": Profile(ttl=10, wait=2)}`.

Only the most specific matching pattern applies: a pattern without wildcards before one with, then the one with
more fixed characters, then the one that was given first.
"""

from collections.abc import Mapping
from typing import NamedTuple, cast

from holdtight.base.clock import Duration, seconds, ttl_seconds, wait_seconds
from holdtight.base.names import check_label

__all__ = ["UNSET", "Profile", "Unset", "check_profiles", "profile_for"]


class Unset:
    """Marks an argument that was not given."""

    def __repr__(self) -> str:
        return "..."

    def __reduce__(self) -> str:
        return "UNSET"


UNSET = Unset()


class Profile(NamedTuple):
    """Defaults for locks whose names match a pattern. Fields that are left out come from the client.

    Options:
        ttl: as for `lock`.
        wait: as for `lock`.
        renew: as for `lock`.
        max_hold: as for `lock`.
        label: as for `lock`.
        warn_after: a lock that is held and renewed for longer emits the event `HeldLong`, once for each grant, and a
            warning in the log. None means ten times the ttl.
        cohort: as for `lock`. It does not apply to other kinds of locks.

    Example:
        >>> slow = {"reports:*": Profile(ttl="2m", wait=0, label="reports")}
        >>> with Locks("memory://", profiles=slow) as locks, locks.lock("reports:daily") as lease:
        ...     print(lease.ttl)
        120.0
    """

    # Not quoted: a named tuple compiles each text, which takes as long as a small module.
    ttl: Duration | Unset = UNSET
    wait: Duration | Unset | None = UNSET
    renew: bool | Unset = UNSET
    max_hold: Duration | Unset | None = UNSET
    label: str | Unset | None = UNSET
    warn_after: Duration | None = None
    cohort: bool = False


_PLAIN: tuple[str | None, Profile] = (None, Profile())


def check_profiles(profiles: object) -> tuple[tuple[str, Profile], ...]:
    """Returns the profiles, most specific pattern first; the ValueError or TypeError names the pattern."""
    if profiles is None:
        return ()
    if not isinstance(profiles, Mapping):
        raise TypeError(f"profiles must map name patterns to Profile objects, not {type(profiles).__name__}")
    given = cast(Mapping[object, object], profiles)
    found: list[tuple[str, Profile]] = []
    for pattern, profile in given.items():
        if not isinstance(pattern, str):
            raise TypeError(f"a pattern in profiles must be a str, not {type(pattern).__name__}")
        if not pattern:
            raise ValueError("a pattern in profiles is empty: it would fit no name")
        if not isinstance(profile, Profile):
            raise TypeError(f"profiles[{pattern!r}] must be a holdtight.Profile, not {type(profile).__name__}")
        _check(pattern, profile)
        found.append((pattern, profile))
    return tuple(sorted(found, key=lambda item: _specificity(item[0]), reverse=True))


def _check(pattern: str, profile: Profile) -> None:
    where = f"profiles[{pattern!r}]."
    if profile.renew is not UNSET and not isinstance(profile.renew, bool):
        raise TypeError(f"{where}renew must be True or False, not {profile.renew!r}")
    if not isinstance(profile.cohort, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{where}cohort must be True or False, not {profile.cohort!r}")
    if profile.ttl is not UNSET:
        ttl_seconds(profile.ttl, renewed=profile.renew is not False, argument=f"{where}ttl")
    if profile.wait is not UNSET:
        wait_seconds(profile.wait, f"{where}wait")
    if profile.max_hold is not UNSET and profile.max_hold is not None:
        seconds(profile.max_hold, f"{where}max_hold")
    if profile.warn_after is not None:
        seconds(profile.warn_after, f"{where}warn_after")
    if profile.label is not UNSET:
        check_label(profile.label)


def _specificity(pattern: str) -> tuple[bool, int]:
    wild = sum(char in "*?[" for char in pattern)
    return wild == 0, len(pattern) - wild


def profile_for(profiles: tuple[tuple[str, Profile], ...], name: str) -> tuple[str | None, Profile]:
    """The pattern that applies to the name, and its profile."""
    if not profiles:
        return _PLAIN
    from fnmatch import fnmatchcase

    for pattern, profile in profiles:
        if pattern == name or fnmatchcase(name, pattern):
            return pattern, profile
    return _PLAIN
