"""What a client does to locks that it need not hold: it lists them, and checks what it was asked for."""

from typing import TYPE_CHECKING, Any

from holdtight.stores.boundary import Place

if TYPE_CHECKING:
    from holdtight.clients.verbs import Verbs
    from holdtight.core.listing import Listing, QuorumListing

__all__ = ["Outside"]


class Outside:
    """The part of a client that looks at locks from outside, and acts on them. Sends nothing itself."""

    if TYPE_CHECKING:
        place: Place
        verbs: Verbs

        def check_open(self) -> None: ...
        def _entered(self) -> dict[str, int]: ...

    def _listing(self, pattern: Any) -> "Listing | QuorumListing":
        check_pattern(pattern)
        self.check_open()
        return self.verbs.listing(self.place, pattern, self._entered())


def check_pattern(pattern: object) -> None:
    if not isinstance(pattern, str):
        raise TypeError(f"pattern must be a str such as 'orders:*', not {type(pattern).__name__}")
    if not pattern:
        raise ValueError("pattern is empty: '*' matches every name")
    try:
        pattern.encode()
    except UnicodeEncodeError:
        raise ValueError(f"pattern={pattern!r} is not valid Unicode text (lone surrogates)") from None
