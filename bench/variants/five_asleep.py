"""The same on five nodes."""

from __future__ import annotations

from bench.variants.five import Five


class FiveAsleep(Five):
    SPIN = False


VARIANT = FiveAsleep
