# mypy: disable-error-code="import-untyped, misc"
# pyright: basic, reportMissingTypeStubs=false
"""`manage.py holdtight_run NAME [--at-least D] COMMAND ...`: a command that cron starts on every host runs on one."""

import argparse
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand

from holdtight.base.jobs import Skipped
from holdtight.contrib import django

__all__ = ["Command"]


class Command(BaseCommand):
    help = "Runs another command under a lock, or skips it while that runs elsewhere."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("name", help="the name of the lock")
        parser.add_argument("--at-least", help="also skip if it has started within this time: 50m, 12h")
        parser.add_argument("command", help="the command of manage.py")
        parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")

    def handle(self, *args: Any, name: str, command: str, at_least: str | None, **options: Any) -> None:
        label = f"manage.py {command}"[:100]
        once = django.locks.once(lambda: name, at_least=at_least, label=label)
        done = once(lambda: call_command(command, *args))()
        if isinstance(done, Skipped):
            by = f" by {done.holder.host}, pid {done.holder.pid}" if done.holder and done.holder.host else ""
            self.stderr.write(f"{name}: skipped, {done.why}{by}")
