"""The subject, with `acks=1`."""

from __future__ import annotations

from bench.variants.holdtight import Holdtight


class Acked(Holdtight):
    ACKS = 1


VARIANT = Acked
