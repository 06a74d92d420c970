-- Times in milliseconds and a size; stores/times.py explains them.
-- EXPECTS  nothing
-- LEAVES   TAIL CLAIM FRESH HEARTBEAT SWEEP
local TAIL, CLAIM, FRESH, HEARTBEAT, SWEEP = TAIL_MS, CLAIM_MS, FRESH_MS, HEARTBEAT_MS, SWEEP_SIZE
