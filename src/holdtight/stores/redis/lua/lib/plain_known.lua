-- When a plain lock expires (server's ms; -1 never; without the right to TIME, the ms that are left), and whether that is
-- what the sender last knew. PTTL and TIME may read the clock one after the other: hence the 2 ms.
-- EXPECTS  known lock now
-- LEAVES   left expiry known_matches
local left = call('PTTL', lock)
local expiry = left < 0 and -1 or now + left
local known_matches = now == 0 or math.abs(expiry - (tonumber(known) or expiry)) <= 2
