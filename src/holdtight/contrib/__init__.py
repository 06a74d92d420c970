"""Locks in frameworks: `django`, `starlette` (FastAPI), `celery`, `apscheduler`. See docs/integrations.md.

Each module imports its framework, and nothing imports the modules: a program has what it uses.
"""
