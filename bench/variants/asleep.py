"""The subject as it waits without looking: asleep until the answer comes."""

from __future__ import annotations

from bench.variants.holdtight import Holdtight


class Asleep(Holdtight):
    SPIN = False


VARIANT = Asleep
