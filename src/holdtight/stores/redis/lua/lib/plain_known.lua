-- The expiry of a plain lock (server's ms; -1 for never; without permission for TIME, the ms left), and whether it is
-- the one that the sender last knew. PTTL and TIME may read the clock at different moments: hence the 2 ms.
-- EXPECTS  known lock now
-- LEAVES   left expiry known_matches
local left = call('PTTL', lock)
local expiry = left < 0 and -1 or now + left
local known_matches = now == 0 or math.abs(expiry - (tonumber(known) or expiry)) <= 2
