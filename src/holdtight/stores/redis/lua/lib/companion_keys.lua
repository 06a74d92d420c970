-- A name's companion keys; the loader has their suffixes from keys.py. They are not among KEYS: each would cost every
-- request to every node a fifth of a microsecond, and is rarely needed. A node of a quorum is an independent server,
-- never part of a cluster.
-- EXPECTS  main
-- LEAVES   queue waiters holders watchers
local queue, waiters, holders, watchers = main .. QUEUE, main .. WAITERS, main .. HOLDERS, main .. WATCHERS
