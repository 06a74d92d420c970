"""Locks for blocking code."""
