"""The same kinds in this process: a store without a server."""
