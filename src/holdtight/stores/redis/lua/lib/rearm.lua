-- Renews a shared holder: extends its time left, or sets it if `exact`. The keys that it shares with other holders are
-- never shortened.
-- EXPECTS  exact holders main now owner px ttl waiters
-- LEAVES   nothing
local span = math.max(tonumber(px), call('PTTL', holders))
call('PEXPIRE', holders, span) -- first: a server out of memory refuses ZADD, but not after this
call('ZADD', holders, exact and 'XX' or 'GT', now + ttl, owner)
call('PEXPIRE', main, span)
if call('PTTL', waiters) < span then call('PEXPIRE', waiters, span) end
