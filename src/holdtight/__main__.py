"""`python -m holdtight`: the same as the command `holdtight`. `explain` works without the extra `cli` as well."""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] != ["explain"]:
        from holdtight.cli import main as command_line

        command_line()
    _explain(words)


def _explain(arguments: Sequence[str]) -> None:
    import argparse

    from holdtight.explain import codes, docs

    parser = argparse.ArgumentParser("python -m holdtight", description="Distributed locks on Redis and Valkey.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    explain = commands.add_parser("explain", help="what an error means, and what to do about it")
    explain.add_argument("code", nargs="?", metavar="CODE", help="as at the end of the message; all codes without it")
    code: str | None = parser.parse_args(arguments).code
    if code is None:
        for each, (name, when) in codes().items():
            print(f"{each:<24} {name:<17} {when}")
        return
    try:
        text = docs(code)
    except ValueError as error:
        explain.error(str(error))
    print(text, end="")


if __name__ == "__main__":
    main()
