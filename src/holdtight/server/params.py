"""Checks the query parameters of GET requests, and reads and writes the cursors of lists."""

import base64
import json
import math
from typing import Any

from holdtight.base.names import check_name
from holdtight.server.principal import Principal
from holdtight.server.problems import bad

__all__ = ["MOST_LISTED", "Params", "choice", "cursor", "cursor_text", "is_number", "needed_name", "number"]

MOST_LISTED = 500

Params = dict[str, str]


def number(params: Params, name: str, default: int, most: int, least: int = 1) -> int:
    text = params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 16 or not least <= int(text) <= most:
        raise bad(f"{name}: must be a number from {least} to {most}")
    return int(text)


def choice(params: Params, name: str, allowed: tuple[str, ...], default: str | None) -> str | None:
    text = params.get(name, default)
    if text is not None and text not in allowed:
        raise bad(f"{name}: must be one of {', '.join(allowed)}")
    return text


def needed_name(params: Params, principal: Principal) -> str:
    name = params.get("name", "")
    check_name(name)
    principal.need_name(name)
    return name


def is_number(text: str | None) -> bool:
    try:
        return text is not None and math.isfinite(float(text))
    except ValueError:
        return False


def cursor_text(value: Any, name: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([value, name]).encode()).decode().rstrip("=")


def cursor(text: str | None) -> tuple[Any, str] | None:
    if text is None:
        return None
    try:
        value, name = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if (
            not isinstance(name, str)
            or not isinstance(value, str | int | float)
            or (isinstance(value, float) and not math.isfinite(value))
        ):
            raise ValueError
    except (ValueError, TypeError, RecursionError):
        raise bad("cursor: is not one that a list gave") from None
    return value, name
