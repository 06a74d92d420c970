"""The one thread per process that renews leases, for blocking and asyncio clients."""
