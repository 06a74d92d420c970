"""The one thread per process that renews leases for both colours."""
