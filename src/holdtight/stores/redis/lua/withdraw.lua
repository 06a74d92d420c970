-- Undoes an attempt: leaves the queue, releases a grant to the next waiter, and hands on a name that it finds free.
-- A marker refuses an attempt, or an adoption, of this owner that is still under way.
-- KEYS    main queue waiters holders
-- ARGV    owner marker [inbox]
-- RETURN  1 done | 2 done, sweep again | {0, '', fence} done, but the grant was released by force before
-- RETURN  {0, holder} done, but it was not ours: '' if it is gone, free or shared by others; with '!' only
-- marker is a server time in ms until which attempts of this owner are refused; 0 for none.
-- With an inbox it does nothing unless the owner waits with that inbox. So it never undoes a confirmed grant, nor a
-- later request of the owner on another connection. '*' stands for any inbox.
-- With '!' in place of an inbox it undoes everything, and the answer is {0, holder} if this owner did not hold the name.
local strict = inbox == '!'
if inbox and not strict then
  local entry = call('HGET', waiters, owner)
  local size = entry and tonumber(INBOX_SIZE_OF(entry))
  if not entry or inbox ~= '*' and (size == 0 or INBOX_OF(entry, size) ~= inbox) then return 1 end
end
local value = call('GET', main)
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
--@include constants
--@include read_main
--@include queue_helpers
--@include mark
local known = call('HMGET', waiters, 'f', 'c', 'e', 'k' .. owner)
local held = call('ZSCORE', holders, owner)
call('ZCARD', queue)
leave_queue(owner) -- and the first write is one that a server out of memory does not refuse
local until_ms = tonumber(marker)
if until_ms > now then mark(marker, known[3]) end
local ours, rewritten, more, _ = kind == 'x1' and OWNER_OF(value) == owner, false, false, nil
if ours or left <= 0 then
  if held then
    call('ZREM', holders, owner)
    call('HDEL', waiters, 'h' .. owner)
  end
--@include holders
--@include handover
  if ours or kind == 's1' or kind == 'p1' then
    more = pass_on(known[1], known[2]) == 2
    rewritten = stored == 0
  elseif call('ZCARD', queue) > 0 then
    last = math.max(last, known[1] or 0)
    clear_away()
    _, more = hand_over(known[2] or 0, known[2], '')
  end
  rewritten = rewritten or taker or longest > 0
end
if until_ms > now and value and not flagged and not rewritten then
  call('SET', main, kind .. 'q' .. AFTER_FLAG_OF(value), 'KEEPTTL')
end
if strict and not known[4] and not ours and (tonumber(held or 0)) <= now then
  return {0, kind == 'x1' and OWNER_OF(value) or ''}
end
return more and 2 or known[4] and {0, '', FORCED_FENCE_OF(known[4])} or 1
