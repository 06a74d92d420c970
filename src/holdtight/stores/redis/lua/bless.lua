-- An operator vouches that a node's last start lost no vote that still counts. The node then votes at once.
-- KEYS    stamp
-- ARGV    inbox passport not_after
-- RETURN  1 | {-1, now} late
-- passport is as in vote.lua. Its run id comes from the same connection, so a bless never applies to another start.
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
if now_us > tonumber(not_after) then return {-1, now} end
local max_ttl, run = sub(passport, 1, 9), sub(passport, 10)
--@include guard
call('SET', stamp, string.format('s1%013.0f%09.0f', 0, longest_ttl) .. run)
return 1
