"""Clients and lock objects: the code that blocking and asyncio classes share."""
