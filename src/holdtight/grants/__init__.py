"""The process-side state of grants: tenures, leases, and what is done with them."""
