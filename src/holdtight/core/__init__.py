"""The logic of locks, as pure code that knows no server and no event loop."""
