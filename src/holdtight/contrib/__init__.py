"""Locks in frameworks: `django`, `starlette` (FastAPI), `celery`, `apscheduler`. See docs/integrations.md.

Each module imports its framework. holdtight imports none of the modules, so a program loads only what it uses.
"""
