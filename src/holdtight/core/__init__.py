"""What locks do, decided in pure code: knows no server and no event loop."""
