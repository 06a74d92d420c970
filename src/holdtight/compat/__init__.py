"""Drop-in replacements for the locks of others: see `redis_py`."""
