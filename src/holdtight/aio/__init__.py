"""Locks for asyncio code."""
