"""What all decorators of jobs have in common: which functions they take, and what they make of them."""

import functools
from collections.abc import Callable
from typing import Any, cast

from holdtight.clients.decorating import check_body
from holdtight.recipes.names import Naming

__all__ = ["decorator", "dressed", "named"]


def decorator(job: str, wrap: Callable[[Any], Any], *, awaits: bool) -> Callable[[Any], Any]:
    """The decorator of a job. `wrap` gets a function of the right colour. A classmethod or staticmethod is unwrapped
    and wrapped again, so that the job may decorate it or be decorated by it."""

    def decorate(*given: Any, **words: Any) -> Any:
        if len(given) != 1 or words or not (callable(given[0]) or hasattr(given[0], "__func__")):
            shown = ", ".join([*map(repr, given), *(f"{word}={value!r}" for word, value in words.items())])
            raise TypeError(f'{job} decorates a function, not ({shown}). It needs a name first: @locks.{job}("name")')
        [function] = given
        if isinstance(function, (classmethod, staticmethod)):
            opened = cast(Any, function)
            return type(opened)(decorate(opened.__func__))
        if check_body(function, f"the lock of {job}") is not awaits:
            if awaits:
                raise TypeError(f"{function!r} is not an async function: decorate it with {job} of Locks")
            raise TypeError(f"{function!r} is async: decorate it with {job} of AsyncLocks")
        return wrap(function)

    return decorate


def dressed(wrapper: Any, function: Any, naming: Naming, **helpers: Any) -> Any:
    """`wrapper` with the name and signature of the function, and with its helpers. A plain function: it binds as a
    method and pickles by reference."""
    functools.update_wrapper(wrapper, function)
    wrapper.name = named(naming)
    for word, helper in helpers.items():
        setattr(wrapper, word, helper)
    return wrapper


def named(naming: Naming) -> Callable[..., str]:
    def name(*args: Any, **kwargs: Any) -> str:
        return naming.of(args, kwargs)

    return name
