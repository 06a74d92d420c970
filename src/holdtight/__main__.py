"""`python -m holdtight`: the same as the command `holdtight`. `explain` works without the extra `cli` as well."""

import sys
from collections.abc import Sequence
from importlib import import_module

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["explain"] and not _has_click():
        sys.exit(_explain(words[1:]))
    from holdtight.cli import main as command_line

    command_line()


def _has_click() -> bool:
    try:
        import_module("click")
    except ModuleNotFoundError:
        return False
    return True


def _explain(words: Sequence[str]) -> int:
    """The verb `explain` without click: the same output, error and exit codes."""
    from holdtight.explain import docs, table

    try:
        if len(words) > 1 or words[:1] in (["-h"], ["--help"]):
            raise ValueError("usage: python -m holdtight explain [CODE]")
        print(docs(words[0]) if words else table(), end="")
    except ValueError as error:
        print(f"holdtight: {error}", file=sys.stderr)
        return 64
    return 0


if __name__ == "__main__":
    main()
