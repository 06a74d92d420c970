-- What follows a ZADD NX that added the owner: who is in already keeps his fence, and whatever else stands against it is
-- said elsewhere. Expects text, the time as a fence, and span. Without a flag there is nothing in the hash but holders.
local done = redis.pcall('HSET', waiters, 'h' .. owner, mode .. sub('00000000' .. n, -9) .. text .. label)
if type(done) == 'table' then
  call('ZREM', holders, owner) -- as if nothing had been written: the other key is somebody else's
  return done
end
call('PEXPIRE', holders, span)
call('PEXPIRE', waiters, span)
call('SET', main, (mode == 'r' and 's1-' or 'p1-') .. text .. (tonumber(n) > 1 and '+' or ''), 'PX', span)
do return text end
