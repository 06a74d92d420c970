# mypy: disable-error-code="import-untyped, misc"
# pyright: basic, reportMissingTypeStubs=false
"""The app, so that Django finds the migration and the command."""

from django.apps import AppConfig

__all__ = ["HoldtightConfig"]


class HoldtightConfig(AppConfig):
    name = "holdtight.contrib.django"
    label = "holdtight"
    verbose_name = "holdtight"
