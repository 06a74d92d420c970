"""A process without free descriptors."""

from __future__ import annotations

import os
import resource

__all__ = ["limit_descriptors", "starve"]


def limit_descriptors(most: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def starve() -> list[int]:
    """Takes every descriptor that this process may still have. Closing those that it returns gives them back."""
    limit_descriptors(100)
    taken: list[int] = []
    try:
        while True:
            taken.append(os.dup(0))
    except OSError:
        return taken
