-- The server's time, in µs and in ms; 0 for a user without permission for TIME, whose requests have no arrival limit.
-- EXPECTS  nothing
-- LEAVES   now_us now
local time = redis.pcall('TIME')
local now_us = time[1] and time[1] * 1000000 + time[2] or 0
local now = math.floor(now_us / 1000)
