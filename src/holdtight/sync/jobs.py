"""The ready-made jobs of `Locks`: the methods, whose code is loaded when a program uses them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, cast

from holdtight.config.profiles import UNSET
from holdtight.config.settings import FLIGHT_OPTIONS, JOB_OPTIONS, unknown_options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Never

    from holdtight.base.jobs import Skipped
    from holdtight.config.options import Duration
    from holdtight.config.profiles import Unset
    from holdtight.sync.decorated import FlightJob, OnceJob, SynchronizedJob
    from holdtight.sync.leading import Leader

__all__ = ["Jobs"]


class Jobs:
    """The part of `Locks` that decorates functions."""

    def synchronized(
        self,
        name: str | Callable[..., str],
        *,
        reentrant: bool = False,
        ttl: "Duration | Unset" = UNSET,
        wait: "Duration | Unset | None" = UNSET,
        renew: "bool | Unset" = UNSET,
        max_hold: "Duration | Unset | None" = UNSET,
        label: "str | Unset | None" = UNSET,
        **unknown: "Never",
    ) -> "SynchronizedJob":
        """Decorates a function: each call runs in a `with` block of the lock that its arguments name.

        `name` is a template such as "order:{order_id}", whose fields are parameters of the function, or a callable that
        gets the arguments of the call. Values may be str, int, UUID, Decimal, date, datetime or Enum. The other options
        (`reentrant`, `ttl`, `wait`, `renew`, `max_hold`, `label`) are those of `lock`. The decorated function has
        `.name(...)`, which takes the arguments of a call.

        Raises ValueError or TypeError for a template, option or function that is not allowed; a call raises as a `with`
        block does, and ValueError or TypeError for a value that cannot be part of a name.

        Example:
            >>> @locks.synchronized("order:{order_id}", wait=5)
            ... def ship(order_id):
            ...     return current_lease().name
            >>> ship(42), ship.name(43)
            ('order:42', 'order:43')
        """
        if unknown:
            raise unknown_options("synchronized", unknown, ("reentrant", *JOB_OPTIONS))
        from holdtight.sync.synchronizing import synchronized

        options = {"ttl": ttl, "wait": wait, "renew": renew, "max_hold": max_hold, "label": label}
        made: SynchronizedJob = synchronized(self, name, {"reentrant": reentrant, **options})
        return made

    def once(
        self,
        name: str | Callable[..., str],
        *,
        at_least: "Duration | None" = None,
        per: str | Callable[..., str] | None = None,
        after_failure: Literal["wait", "retry"] = "wait",
        on_skip: "Literal['return', 'raise'] | Callable[[Skipped], Any]" = "return",
        wait: "Duration | None" = 0,
        ttl: "Duration | Unset" = UNSET,
        renew: "bool | Unset" = UNSET,
        max_hold: "Duration | Unset | None" = UNSET,
        label: "str | Unset | None" = UNSET,
        **unknown: "Never",
    ) -> "OnceJob":
        """Decorates a function that many processes call at the same time, such as a cron job on every host. One call
        runs, the others are skipped.

        The decorated function returns what its body returns, or a falsy `Skipped` that says why it did not run. It has
        `.last(...)`, a `Run` or None, `.forget(...)`, which drops the record, and `.name(...)`; each takes the
        arguments of a call.

        Options:
            name: as for `synchronized`.
            at_least: for this long after a start, by the server's clock, no other body starts. Up to 366 days. Without
                it, and without `per`, only calls that overlap are skipped.
            per: the occurrence, a template or callable as `name`: one record for each, kept for `at_least`, a day by
                default. Exact where the nominal time of a run is known.
            after_failure: "wait": every start counts. "retry": only a body that returned counts; one that raised frees
                the job at once, one that was killed after its ttl. Default "wait".
            on_skip: "return" the `Skipped`, "raise" it as JobSkipped, or a callable that gets it and gives the result.
            wait: how long to wait for a run that is on, to decide by its record then. Default 0.
            ttl, renew, max_hold, label: those of `lock`.

        Raises TypeError or ValueError for what is not allowed, NotSupported for a record on a quorum. A call raises as
        a block of the lock does, and Unavailable if the record cannot be written: then its body does not run.

        Example:
            >>> @locks.once("billing:{tenant}", at_least="50m")
            ... def bill(tenant):
            ...     return "billed"
            >>> bill("acme")
            'billed'
            >>> bill("acme").why, bill.last("acme").state
            ('done', 'done')
        """
        if unknown:
            raise unknown_options("once", unknown, ("at_least", "per", "after_failure", "on_skip", *JOB_OPTIONS))
        from holdtight.sync.once import once

        options = {"ttl": ttl, "renew": renew, "max_hold": max_hold, "label": label}
        given = {"at_least": at_least, "per": per, "after_failure": after_failure, "on_skip": on_skip, "wait": wait}
        made: OnceJob = once(self, options, {"name": name, **given})
        return made

    def single_flight(
        self,
        name: str | Callable[..., str],
        *,
        ttl: "Duration",
        stale: "Duration" = 0,
        negative: "Mapping[type[Exception], Duration] | None" = None,
        error_ttl: "Duration" = 1,
        refresh: Literal["caller", "background"] = "caller",
        codec: Any = "json",
        max_size: int = 1 << 20,
        lease_ttl: "Duration" = 10,
        wait: "Duration | Unset | None" = UNSET,
        label: "str | Unset | None" = UNSET,
        **unknown: "Never",
    ) -> "FlightJob":
        """Decorates a function whose value is kept on the server: of all calls in all processes one computes it.
        The others get what it has computed.

        The decorated function has `.invalidate(...)`, which drops the value, `.expire(...)`, which makes it stale,
        `.refresh(...)`, which computes it now, `.peek(...)`, a `Peek` or None, and `.name(...)`; each takes the
        arguments of a call. `locks.single_flight("fx", ttl=60).get_or_create(fetch)` needs no decorated function.

        Options:
            name: as for `synchronized`.
            ttl: how long a value is fresh, by the server's clock.
            stale: for how long after that it may still be given: one call refreshes it, all others get it at once.
            negative: exceptions that are answers, and how long each is kept: raised in all calls as that very type.
            error_ttl: for how long after any other exception nobody tries again: the call that computed gets its own
                exception, others FlightFailed, or the stale value if there is one.
            refresh: "background" gives the stale value also to the call that refreshes it; four at most at a time.
            codec: "json", "bytes", or an object with `dumps` and `loads`. Everybody gets the value as decoded.
            max_size: the most bytes of a value.
            lease_ttl: the ttl of the lock: if the process that computes is killed, the next computes after that.
            wait: how long to wait for a value. When it is over: the stale value, else LockTimeout.
            label: that of `lock`.

        Raises TypeError or ValueError for what is not allowed, NotSupported on a quorum. A call raises FlightFailed,
        LockTimeout, Unavailable, and DeadlockDetected for a flight that needs itself.

        Example:
            >>> @locks.single_flight("square:{number}", ttl=60)
            ... def square(number):
            ...     print("computing")
            ...     return number * number
            >>> square(7), square(7)
            computing
            (49, 49)
            >>> locks.single_flight("fx", ttl=60).get_or_create(lambda: 1.08)
            1.08
        """
        if unknown:
            raise unknown_options("single_flight", unknown, FLIGHT_OPTIONS)
        from holdtight.sync.flights import SingleFlight

        given = {"ttl": ttl, "stale": stale, "negative": negative, "error_ttl": error_ttl, "refresh": refresh}
        options = {"ttl": lease_ttl, "wait": wait, "label": label}
        made: Any = SingleFlight(self, name, options, {**given, "codec": codec, "max_size": max_size})
        return cast("FlightJob", made)

    def leader(
        self,
        name: str,
        *,
        ttl: "Duration" = 15,
        grace: "Duration | None" = None,
        wait: "Duration | Unset | None" = UNSET,
        label: "str | Unset | None" = UNSET,
        **unknown: "Never",
    ) -> "Leader":
        """Returns a candidate for leading under this name. `with leader as term` leads for the block, and
        `leader.campaign()` returns a term. `leader.run(fn)` calls `fn(term)` whenever it leads, until `leader.stop()`.
        `current()`, `contenders()`, `observe()` and `on_change(fn)` look from outside.

        Options:
            ttl: if the process is killed, another leads after that. A term that ends by itself is followed at once.
            grace: a term counts as lost this long before its lease ends, so that its work can stop in time. Default:
                a fifth of the ttl.
            wait: how long `with` and `campaign()` wait.
            label: what others see of the leader, such as its address; `term.proclaim(label)` changes it.

        Raises TypeError or ValueError for what is not allowed.

        Example:
            >>> leader = locks.leader("poller", label="10.0.0.5:80")
            >>> with leader as term:
            ...     term.check()
            ...     leader.current().label
            '10.0.0.5:80'
        """
        if unknown:
            raise unknown_options("leader", unknown, ("ttl", "grace", "wait", "label"))
        from holdtight.sync.leading import Leader

        return Leader(self, name, {"ttl": ttl, "wait": wait, "label": label}, grace)
