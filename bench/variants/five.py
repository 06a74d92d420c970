"""The subject on a quorum of five nodes. They are new, so that the client has to bless them."""

from __future__ import annotations

from bench.variants.holdtight import Holdtight


class Five(Holdtight):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._locks.bless()

    def targets(self) -> list[str]:
        return self.url.split(",")


VARIANT = Five
