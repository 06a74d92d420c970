-- A name's other keys; the loader has their endings from keys.py. They are not among KEYS: each would cost every request
-- to every node a fifth of a microsecond, and is seldom needed. A node of a quorum is a server of its own, never part of
-- a cluster.
-- EXPECTS  main
-- LEAVES   queue waiters holders watchers
local queue, waiters, holders, watchers = main .. QUEUE, main .. WAITERS, main .. HOLDERS, main .. WATCHERS
