-- Sets the time left of one who shares; the keys that others share with him are never shortened.
local span = math.max(tonumber(px), call('PTTL', holders))
call('PEXPIRE', holders, span) -- first: a server out of memory refuses ZADD, but not after this
call('ZADD', holders, now + ttl, owner)
call('PEXPIRE', main, span)
if call('PTTL', waiters) < span then call('PEXPIRE', waiters, span) end
