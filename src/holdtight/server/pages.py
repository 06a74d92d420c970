"""The page: a static shell, modules and a style, all of them in the package. Nothing is built, nothing is foreign."""

from pathlib import Path
from typing import NamedTuple

__all__ = ["Page", "find"]

_FOLDER = Path(__file__).parent / "static"
_PAGES = ("/", "/locks", "/lock", "/contention", "/graph", "/nodes", "/sessions", "/audit", "/login")
_KINDS = {".js": b"text/javascript; charset=utf-8", ".css": b"text/css; charset=utf-8", ".svg": b"image/svg+xml"}
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = (
    ("content-security-policy", _CSP),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)


class Page(NamedTuple):
    status: int
    body: bytes
    kind: bytes
    headers: tuple[tuple[str, str], ...]
    route: str


_shell: Page | None = None
_files: dict[str, Page] | None = None


def find(path: str, *, login: bool) -> Page | None:
    """By exact path: no name is ever made into a path of the file system."""
    global _shell, _files
    if _shell is None or _files is None:
        _shell = Page(200, (_FOLDER / "index.html").read_bytes(), b"text/html; charset=utf-8", _HEADERS, "page")
        _files = {
            f"/static/{each.name}": Page(200, each.read_bytes(), _KINDS[each.suffix], _HEADERS, "static")
            for each in sorted(_FOLDER.iterdir())
            if each.suffix in _KINDS
        }
    if path in _PAGES:
        return _shell if login or path != "/login" else None
    return _files.get(path)
