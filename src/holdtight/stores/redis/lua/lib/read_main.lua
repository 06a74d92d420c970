-- Parses the main key's value, as GET returned it.
--     last    the fence                                flagged  there may be waiters or markers
--     shared  'r' or 'p' if the name is shared         left     ms that an exclusive holder still has
--     expired an exclusive holder that has expired, else ''
-- EXPECTS  TAIL main value waiters
-- LEAVES   kind last left flagged shared expired
--
-- A main value is  kind(1) '1' flag(1) then
--     held         'x1' flag owner(24) fence(16) label
--     readers      's1' flag fence(16)
--     permits      'p1' flag fence(16), and '+' if some holder may have more than one
--     tombstone    't1' flag fence(16)
-- flag is 'q' while there may be waiters or markers, '-' if there are none. On a node of a quorum it may be 'g' instead
-- of '-': a vote that passed the restart guard wrote the value, or its predecessor; or 'h': the same, and no waiter has
-- asked to be rung since. A script that cannot prove this writes '-'. An exclusive key is alive while PTTL > TAIL.
local kind, last, left, flagged, shared, expired = 't1', 0, 0, false, nil, ''
if value then
  kind = KIND_OF(value)
  flagged = FLAG_OF(value) == 'q'
  if kind == 't1' then
    last = #value == 19 and tonumber(SHARED_FENCE_OF(value))
  elseif kind == 'x1' then
    last = #value >= 43 and tonumber(FENCE_OF(value))
    left = call('PTTL', main) - TAIL
    if left <= 0 then expired = OWNER_OF(value) end
  elseif kind == 's1' or kind == 'p1' then
    shared = kind == 's1' and 'r' or 'p'
    last = #value <= 20 and tonumber(SHARED_FENCE_OF(value))
  else
    last = nil
  end
  if not last then
    return redis.error_reply('HTFOREIGN the key holds a value that is not a lock of this format')
  end
else
  flagged = call('EXISTS', waiters) == 1
end
