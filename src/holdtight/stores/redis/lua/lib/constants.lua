-- Times in milliseconds. TAIL is how long a key outlives what it stands for, so that the next
-- taker still finds the last fence and sees that a holder expired rather than released. Who was heard of less than
-- FRESH ago is trusted to come when he is rung.
local TAIL, CLAIM, FRESH, HEARTBEAT, SWEEP = 10000, 500, 200, 5000, 200
