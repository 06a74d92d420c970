"""Turn claims into requests and replies into values: Redis servers, and memory."""
