-- Times in milliseconds, from stores/times.py, which says what they mean.
-- EXPECTS  nothing
-- LEAVES   TAIL CLAIM FRESH HEARTBEAT SWEEP
local TAIL, CLAIM, FRESH, HEARTBEAT, SWEEP = TAIL_MS, CLAIM_MS, FRESH_MS, HEARTBEAT_MS, SWEEP_SIZE
