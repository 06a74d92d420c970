-- Admits an owner among shared holders. Runs after ZADD NX succeeded, so an owner that is in already keeps its fence;
-- the caller handles all other refusals. `text` is the server's time as a fence, `span` is how long the keys stay.
-- Without a flag on the main value the hash has nothing but holders.
-- EXPECTS  holders label main mode n owner span text waiters
-- LEAVES   nothing: it returns
local done = redis.pcall('HSET', waiters, 'h' .. owner, mode .. sub('00000000' .. n, -9) .. text .. label)
if type(done) == 'table' then
  call('ZREM', holders, owner) -- as if nothing had been written: the other key is somebody else's
  return done
end
call('PEXPIRE', holders, span)
call('PEXPIRE', waiters, span)
call('SET', main, (mode == 'r' and 's1-' or 'p1-') .. text .. (tonumber(n) > 1 and '+' or ''), 'PX', span)
do return text end
