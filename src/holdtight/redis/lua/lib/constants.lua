-- Times in milliseconds. TAIL is how long a key outlives what it stands for, so that the next
-- taker still finds the last fence and sees that a holder expired rather than released.
local TAIL, CLAIM, HEARTBEAT, SWEEP = 10000, 500, 5000, 200
