-- What the main key says. Expects value, as GET returned it; leaves
--     kind, last (fence), flagged,  shared: 'r' or 'p' if there are holders beside it, else nil,
--     left: ms that an exclusive holder still has, expired: an exclusive holder whose time is up.
--
-- A main value is  kind(1) '1' flag(1) then
--     held         'x1' flag owner(24) fence(16) label
--     readers      's1' flag fence(16)
--     permits out  'p1' flag fence(16), and '+' if some holder may have more than one
--     tombstone    't1' flag fence(16)
-- flag is 'q' while there may be waiters or markers, '-' if there are none. On a node of a quorum it may be 'g' instead
-- of '-': a vote that had passed the restart guard wrote the value, or what it was made of; or 'h': the same, and nobody
-- has asked to be rung since. Who does not know that of his own value writes '-'. An exclusive key is alive while
-- PTTL > TAIL.
local kind, last, left, flagged, shared, expired = 't1', 0, 0, false, nil, ''
if value then
  kind = sub(value, 1, 2)
  flagged = sub(value, 3, 3) == 'q'
  if kind == 't1' then
    last = #value == 19 and tonumber(sub(value, 4, 19))
  elseif kind == 'x1' then
    last = #value >= 43 and tonumber(sub(value, 28, 43))
    left = call('PTTL', main) - TAIL
    if left <= 0 then expired = sub(value, 4, 27) end
  elseif kind == 's1' or kind == 'p1' then
    shared = kind == 's1' and 'r' or 'p'
    last = #value <= 20 and tonumber(sub(value, 4, 19))
  else
    last = nil
  end
  if not last then
    return redis.error_reply('HTFOREIGN the key holds a value that is not a lock of this format')
  end
else
  flagged = call('EXISTS', waiters) == 1
end
