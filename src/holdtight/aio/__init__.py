"""The asyncio colour."""
