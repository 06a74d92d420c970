"""Tests of the lock service."""
