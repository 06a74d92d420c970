-- An operator vouches that a node's last start lost no vote that still counts. The node then votes at once.
-- KEYS    stamp audit
-- ARGV    inbox passport not_after id about
-- RETURN  1 | {-1, now} late
-- passport is as in vote.lua. Its run id comes from the same connection, so a bless never applies to another start.
-- id and about are those of the audit record, as in force.lua. Without the right to write the record nothing is blessed.
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
if now_us > tonumber(not_after) then return {-1, now} end
local max_ttl, run = MAX_TTL_OF(passport), RUN_OF(passport)
--@include guard
call('XADD', audit, 'MAXLEN', '~', 1000, '*', 'id', id, 'at', string.format('%.0f', now_us), 'fence', 0, 'next', '',
  'holders', '[]', 'about', about)
call('PEXPIRE', audit, AUDIT_MS)
call('SET', stamp, string.format('s1%013.0f%09.0f', 0, longest_ttl) .. run)
return 1
