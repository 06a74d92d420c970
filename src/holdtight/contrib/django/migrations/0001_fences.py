# mypy: disable-error-code="import-untyped, misc"
# pyright: basic, reportMissingTypeStubs=false
"""The table of the guard. Not a model: its names are compared byte by byte, for which Django has no field on MySQL."""

from typing import Any

from django.db import migrations

from holdtight.contrib.django import guard
from holdtight.fencing.statements import statements


def create(apps: Any, schema_editor: Any) -> None:
    for sql in statements(guard.table, schema_editor.connection.vendor).create:
        schema_editor.execute(sql)


def drop(apps: Any, schema_editor: Any) -> None:
    schema_editor.execute(f"DROP TABLE {schema_editor.quote_name(guard.table)}")


class Migration(migrations.Migration):
    dependencies = ()
    operations = (migrations.RunPython(create, drop, atomic=False),)
