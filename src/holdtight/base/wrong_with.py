"""Errors for `with` where `async with` is meant, and the other way round. They name the right word and client.

Type checkers do not see these methods, so they flag such a block too.
"""

from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["AsyncOnly", "BlockingOnly"]


class AsyncOnly:
    """Base of the classes for asyncio."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __enter__(self, *_: Any) -> NoReturn:
            raise TypeError(
                f"{type(self).__name__} is for asyncio: write 'async with' instead of 'with'. Blocking code uses Locks"
            )

        __exit__ = __enter__


class BlockingOnly:
    """Base of the classes for blocking code."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __aenter__(self, *_: Any) -> NoReturn:
            raise TypeError(
                f"{type(self).__name__} is for blocking code: write 'with' instead of 'async with'. Code in asyncio "
                "uses AsyncLocks"
            )

        __aexit__ = __aenter__
