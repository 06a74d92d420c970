"""The same kinds of locks in this process: a store without a server."""
