-- The restart guard: when this node may vote again after a start that may have lost votes. A node that lost a vote must
-- not give it to another owner while the first owner may still rely on it, which is at most max_ttl. So the node waits
-- that long after a client has found it without a stamp of this run.
-- EXPECTS  max_ttl now run stamp
-- LEAVES   unguarded_at
--
-- A stamp is  's1' since(13) max_ttl(9) run,  in ms; since is 0 if an operator has vouched for the node.
local known, unguarded_at, longest_ttl = call('GET', stamp), 0, tonumber(max_ttl)
local since = known and tonumber(SINCE_OF(known))
if known and (KIND_OF(known) ~= 's1' or not since) then
  return redis.error_reply('HTFOREIGN the stamp of a quorum holds something else')
end
local stored = known and tonumber(STAMP_MAX_TTL_OF(known)) or 0
longest_ttl = math.max(longest_ttl, stored)
local is_ours = known and STAMP_RUN_OF(known) == run and since <= now -- or the clock was set back: count anew
if not is_ours then since = now end
if not is_ours or longest_ttl > stored then
  call('SET', stamp, string.format('s1%013.0f%09.0f', since, longest_ttl) .. run)
end
if since > 0 then unguarded_at = since + longest_ttl end
