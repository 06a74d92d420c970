"""`python -m holdtight explain [CODE]`: what an error means, without a network."""

import argparse
from collections.abc import Sequence

from holdtight.explain import codes, docs

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
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
