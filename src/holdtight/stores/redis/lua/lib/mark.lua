-- Markers: they refuse late requests of an owner that has moved on.
-- EXPECTS  holders keep now owner queue waiters
-- LEAVES   is_overtaken mark
--
-- A marker is  until(13) ordinal.  Up to `until` (ms), after which no earlier request of the owner can act any more,
-- attempts and adoptions of this owner are refused. With an ordinal (digits, or nothing), its renewals without a higher
-- ordinal are refused too: an owner numbers its renewals from the first one that may shorten the time left.

-- True if the known marker refuses a renewal with `marker`, or with none.
local function is_overtaken(known, marker)
  local latest = known and tonumber(UNTIL_OF(known)) >= now and tonumber(ORDINAL_OF(known))
  return latest and latest >= (marker and tonumber(ORDINAL_OF(marker)) or 0)
end

-- Drops lapsed markers and forced grants, and entries that are in no queue or set, some at a time: a hash in constant use
-- never expires.
local function drop_litter()
  local some = call('HRANDFIELD', waiters, 8, 'WITHVALUES')
  for i = 1, #some, 2 do
    local id, what = some[i], SORT_OF(some[i])
    if #id == 24 then
      if queue and not call('ZSCORE', queue, id) then call('HDEL', waiters, id) end
    elseif #id == 25 and (what == 'm' or what == 'k') then
      if tonumber(UNTIL_OF(some[i + 1])) < now then call('HDEL', waiters, id) end
    elseif #id == 25 and not call('ZSCORE', holders, NAMED_OWNER_OF(id)) then
      call('HDEL', waiters, id)
    end
  end
end

-- Stores a marker. The caller must set the flag of the main value, or the marker is not found. `latest` is the old 'e'.
local function mark(marker, latest)
  local until_ms = tonumber(UNTIL_OF(marker))
  call('HSET', waiters, 'm' .. owner, marker, 'e', math.max(until_ms, latest or 0))
  keep(waiters, math.max(until_ms - now, 1))
  drop_litter()
end
