"""Locks kept on a Redis or Valkey server: keys, scripts, replies, connections."""
