"""Helpers for tests: real servers, a proxy that breaks connections, child processes to talk to."""
