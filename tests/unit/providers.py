"""Credential providers for tests."""

from __future__ import annotations

import asyncio
import threading

from redis.credentials import CredentialProvider

SECRET = "hunter2"


def give_login() -> tuple[str, str]:
    return ("u", SECRET)


async def give_login_async() -> str:
    await asyncio.sleep(0)
    return SECRET


class Provider(CredentialProvider):
    def get_credentials(self) -> tuple[str, str]:
        return ("sync", SECRET)


class AsyncProvider(Provider):
    async def get_credentials_async(self) -> tuple[str, str]:
        await asyncio.sleep(0)
        return ("async", SECRET)


class OnlyAsyncProvider(CredentialProvider):
    async def get_credentials_async(self) -> tuple[str, str]:
        return ("async", SECRET)


class LockedProvider(Provider):
    """Cannot be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
