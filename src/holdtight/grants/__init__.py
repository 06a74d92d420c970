"""The process-side state of grants: tenures, leases, and operations on them."""
