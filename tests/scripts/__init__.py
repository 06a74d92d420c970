"""Each Lua script alone, on real servers: examples that read as specifications, and a state machine."""
