-- Releases grants by force: those of the named owners that still hold the name. Hands the name on, as a release does.
-- A second request with the same id changes nothing and gets the same answer, so that it never harms the next holder.
-- KEYS    main queue waiters holders audit ...
-- ARGV    id not_after floor votes span about ...
-- RETURN  {1, at, fence, next, more, owner, …} done at that time (µs): the owners that held it; more is 2 to sweep again
-- RETURN  {1, at, fence, next, more, owner, …, {record, record, …}} if there are more keys: see below
-- RETURN  {0, now} none of them holds it | {-1, now} late
-- Three arguments per owner: owner, alarm, and a description (JSON) for the audit record. `about` is the rest of the
-- record. not_after and floor are in µs.
-- After `audit`, two keys per owner may follow: its client's record, and that of its wait. What they say of those that
-- held it is added to the audit record, and is the last item of the reply.
-- votes is '1' on a node of a quorum: the fence is floor, unless the node knows a higher one, or floor is more than a
-- second ahead. A renewal there would create the grant anew, also where this node had no vote, so a marker refuses the
-- owner for as long as it can renew, which is `span` ms at most.
local value = call('GET', main)
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
if now_us > tonumber(not_after) then return {-1, now} end
--@include constants
--@include read_main
--@include queue_helpers
local known = call('HMGET', waiters, 'f', 'c', 'e')
call('ZCARD', queue)
call('ZCARD', holders)
call('XLEN', audit)
if votes == '1' then call('ZCARD', main .. WATCHERS) end

local NOT_HELD = '0000000000000000' -- in place of the fence of a grant that this node of a quorum did not have
local records = K[6] and redis.pcall('MGET', unpack(K, 6)) -- no right to MGET: they say nothing
local found, reply, repeated = {}, nil, {}
local function tell(those)
  local told = {}
  for _, each in ipairs(those) do
    local at = (each.argument - 7) / 3 * 2
    told[#told + 1] = records[at + 1] or ''
    told[#told + 1] = records[at + 2] or ''
  end
  return told
end
for i = 7, #A, 3 do
  local owner, ends, fence = A[i], 0, nil
  local forced = call('HGET', waiters, 'k' .. owner)
  if forced and FORCED_ID_OF(forced) == id and FORCED_FENCE_OF(forced) ~= NOT_HELD then
    reply = reply or {1, tonumber(FORCED_AT_OF(forced)), FORCED_TO_OF(forced), FORCED_NEXT_OF(forced), 1}
    reply[#reply + 1] = owner
    repeated[#repeated + 1] = {argument = i}
  elseif kind == 'x1' then
    if OWNER_OF(value) == owner then ends, fence = left, FENCE_OF(value) end
  else
    local score, held = call('ZSCORE', holders, owner), call('HGET', waiters, 'h' .. owner)
    if score and held then ends, fence = score - now, HELD_FENCE_OF(held) end
  end
  if ends > 0 then found[#found + 1] = {owner = owner, argument = i, alarm = A[i + 1], ends = ends, fence = fence} end
end
if reply then
  if records then reply[#reply + 1] = tell(repeated) end
  return reply
end
if #found == 0 and votes ~= '1' then return {0, now} end

-- No stream accepts this id, so nothing is written. But a user without the right is refused, and so is a write to a
-- replica, before anything has changed. A server out of memory refuses it too, but not the record below, because the
-- next write comes before that.
local refused = #found > 0 and redis.pcall('XADD', audit, 'none', 'a', 'b').err
if refused and not string.find(refused, 'stream ID', 1, true) and not string.find(refused, 'OOM', 1, true) then
  return redis.error_reply(refused)
end
call('ZREM', queue, '') -- and the first write is one that a server out of memory does not refuse
-- All nodes of a quorum use the same fence, rather than the time of their own clocks: the next holder may have a
-- majority before the last node gets this request.
local at_least = votes == '1' and tonumber(floor) <= now_us + 1000000 and floor or now_us
local fence = fence_text(math.max(math.max(last, known[1] or 0) + 1, at_least))
local latest = tonumber(known[3] or 0)
local function note(owner, until_ms, held, next)
  local text = string.format('%013.0f%s%s%016.0f', until_ms, held, fence, now_us)
  call('HSET', waiters, 'k' .. owner, text .. id .. next) -- not formatted: an owner may have a byte 0
end
if votes == '1' then
  local until_ms = now + span
  latest = math.max(latest, until_ms)
  for i = 7, #A, 3 do
    call('HSET', waiters, 'm' .. A[i], string.format('%013.0f', until_ms))
    note(A[i], until_ms, NOT_HELD, '')
  end
end
local function remember()
  call('HSET', waiters, 'e', string.format('%.0f', latest))
  keep(waiters, math.max(latest - now, 1))
end
if #found == 0 then
  remember()
  if value and not flagged then call('SET', main, kind .. 'q' .. AFTER_FLAG_OF(value), 'KEEPTTL') end
  return {0, now}
end

last = tonumber(fence)
local texts, next = {}, ''
reply = {1, now_us, fence, '', 1}
for i = 1, #found do
  local owner = found[i].owner
  reply[5 + i], texts[i] = owner, A[found[i].argument + 2]
  call('ZREM', holders, owner)
  call('HDEL', waiters, 'h' .. owner)
end
--@include holders
--@include handover
local admit_one = admit
admit = function(id, ...)
  if next == '' then next = id end
  admit_one(id, ...)
end
clear_away()
local _, more = hand_over(known[2] or 0, known[2], '')
next = taker or next
for i = 1, #found do
  local one = found[i]
  local until_ms = now + one.ends + TAIL
  latest = math.max(latest, until_ms)
  note(one.owner, until_ms, one.fence, next)
end
remember()
if not taker and stored > 0 then
  settle('q') -- others share the name: the fence rises for them too
elseif not taker then
  if was_shared then tighten() end
  call('SET', main, 't1q' .. fence, 'PX', memory_of(last))
end
local fields = {}
if records then
  local told = tell(found)
  for i = 1, #told do fields[2 * i - 1], fields[2 * i] = 'told', told[i] end
  reply[#reply + 1] = told
end
call('XADD', audit, 'MAXLEN', '~', 1000, '*', 'id', id, 'at', string.format('%.0f', now_us), 'fence', fence, 'next', next,
  'holders', '[' .. table.concat(texts, ',') .. ']', 'about', about, unpack(fields))
call('PEXPIRE', audit, AUDIT_MS)
for i = 1, #found do redis.pcall('PUBLISH', found[i].alarm, 'k' .. found[i].owner) end
if votes == '1' and stored == 0 then
  local watchers = main .. WATCHERS
  local some = call('ZRANGEBYSCORE', watchers, '(' .. now, '+inf', 'LIMIT', 0, 3)
  for i = 1, #some do
    redis.pcall('PUBLISH', WATCHER_INBOX_OF(some[i]), 'g' .. WATCHER_OF(some[i]))
    call('ZREM', watchers, some[i])
  end
end
reply[4], reply[5] = next, more and 2 or 1
return reply
