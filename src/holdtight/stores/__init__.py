"""Stores turn claims into requests and replies into values: on Redis servers, and in memory."""
