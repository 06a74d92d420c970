-- Asks one node of a quorum for its vote, to hold a name exclusively (mode x) or to read (mode r). Serves as first
-- request, retry, renewal and repair. There is no queue; a denied waiter can ask to be rung. The owner's own grant is
-- never shortened: a late renewal must not undo a newer one that came on another connection.
-- KEYS    main stamp
-- ARGV    mode px label waiter proposal inbox passport not_after owner
-- RETURN  fence(16) now(16), both in µs | {1, fence, now, expired_owner} | {0, now, holder, left}
-- RETURN  {-1, now} late | {-3, now} withdrawn | {-4, now, left} guarded: too soon after a start
-- RETURN  {-5, now} released by force
-- px is ttl + TAIL; not_after and proposal are in µs. waiter is the owner to ring, '' for the renewal of a lease:
-- proposal is then its fence, which may be old. passport is max_ttl(9) run, as in the node's stamp: run is the server's
-- run id, '' to vote without the guard. A '+' before it says that the guard has already passed a vote from this
-- connection.
--@include constants
local value = call('GET', main)
local time = call('TIME')
local seconds, micros = time[1], time[2]
-- A fence has 16 digits: the seconds, then six digits of microseconds. As strings, fences compare like numbers.
local text = seconds .. (#micros == 6 and micros or sub('00000' .. micros, -6))
if mode == 'x' and waiter ~= '' and #text == 16 and #proposal == 16 and text <= not_after
  and seconds <= proposal and (#px > 5 or px >= '11000') then
  -- The usual cases: the name is free, with at most the last holder's tombstone, and the proposal is of the current
  -- second. So it is acceptable with a ttl of at least one second and a max_ttl of at least four: see below. Strings are
  -- compared whole, since cutting them or converting them to numbers costs more than all else here.
  if value and #value == 19 and value > 't1h' and value < 't1h' .. proposal and proposal <= text
    and passport >= '+000004000' and passport < ',' then
    -- The stamp need not be read, see docs/decisions/0010. Votes that passed the guard wrote this value, each on top of
    -- the last, so nothing was lost since the first of them, except by a restart. And votes lost in the last restart
    -- have expired: the guard checked that when it passed a vote from this connection, in this run of the server.
    call('SET', main, 'x1h' .. owner .. proposal .. label, 'PX', px)
    return proposal .. text
  end
  local sure = SIGN_OF(passport) == '+'
  local wanted = sure and UNSIGNED_OF(passport) or passport
  if SECONDS_OF(proposal) == seconds and wanted >= '000004000' then
    local free, flag
    if not value then
      free, flag = call('EXISTS', main .. WAITERS) == 0, '-'
    elseif #value == 19 and KIND_OF(value) == 't1' then
      local last = AFTER_FLAG_OF(value)
      flag = FLAG_OF(value)
      free = flag ~= 'q' and tonumber(last) and last < text and last < proposal
    end
    if free then
      local is_vote = flag == 'g' or flag == 'h'
      local votes = is_vote and sure
      if #wanted == 9 then
        votes, flag = true, '-'
      elseif not votes then
        local known = call('GET', stamp)
        if known and KIND_OF(known) == 's1' and STAMP_PASSPORT_OF(known) == wanted then
          local since = SINCE_OF(known)
          votes = since == '0000000000000' or tonumber(since) and (since + MAX_TTL_OF(wanted)) * 1000 <= text + 0
          if not is_vote then flag = 'g' end
        end
      end
      if votes then
        call('SET', main, 'x1' .. flag .. owner .. proposal .. label, 'PX', px)
        return proposal .. text
      end
    end
  end
end

--@rest
--@include companion_keys
local now_us = seconds * 1000000 + micros
local now = math.floor(now_us / 1000)
if now_us > tonumber(not_after) then return {-1, now} end
if #seconds ~= 10 then
  return redis.error_reply("HTCLOCK the server's clock is not set: fences are made of its time")
end

if SIGN_OF(passport) == '+' then passport = UNSIGNED_OF(passport) end
local ttl, max_ttl, run, mark = px - TAIL, MAX_TTL_OF(passport), RUN_OF(passport), '-'
if run ~= '' then
--@include guard
  if unguarded_at > now then return {-4, now, unguarded_at - now} end
  mark = value and FRONT_OF(value) == 't1h' and 'h' or 'g'
end

--@include read_main
local floor, memory, quarter = tonumber(proposal), nil, max_ttl * 250
if floor > now_us + math.min(1000000, quarter) then floor = now_us end -- their clock is wrong, or ours is
-- A node forgets a fence TAIL after the fence's time, or when it loses all data, after which max_ttl passes. A new fence
-- must be later than any forgotten one. An older proposal is refused as late, not raised: raising it would spread the
-- time of a clock that is ahead.
local oldest = waiter == '' and 0 or now_us - math.min(TAIL * 800, quarter)

if mode == 'x' and left <= 0 and not flagged and not shared and last < now_us then
  local fence = math.max(last + 1, floor)
  if fence >= oldest and fence <= now_us + ttl * 1000 then
    -- Returns before the costs of what this case does not need.
    local text = string.format('%.0f', fence)
    call('SET', main, 'x1' .. mark .. owner .. text .. label, 'PX', px)
    return {1, text, now, expired}
  end
end

if flagged or last >= now_us then
  memory = call('HMGET', waiters, 'm' .. owner, 'f', 'k' .. owner)
  last = math.max(last, memory[2] or 0)
end
--@include queue_helpers

if mode == 'x' and left > 0 and OWNER_OF(value) == owner then
  if call('PTTL', main) < tonumber(px) then call('PEXPIRE', main, px) end
  return {1, FENCE_OF(value), now, ''}
end
if shared == 'r' and mode == 'r' then
  local score = call('ZSCORE', holders, owner)
  local held = score and tonumber(score) > now and call('HGET', waiters, 'h' .. owner)
  if held then
    local exact = false
--@include rearm
    return {1, HELD_FENCE_OF(held), now, ''}
  end
end
if memory and memory[3] then return {-5, now} end
if memory and memory[1] and tonumber(memory[1]) >= now then return {-3, now} end

local holder = ''
if left > 0 then
  holder = OWNER_OF(value)
else
--@include holders
  if shared == 'p' and living > 0 then return redis.error_reply('HTKIND a semaphore') end
  if shared then expired = clear_away() end
  if stored == 0 or mode == 'r' and shared == 'r' then
    last = math.max(last + 1, floor)
    if last < oldest then return {-1, now} end
    if mode == 'x' then
      call('SET', main, 'x1' .. (flagged and 'q' or mark) .. owner .. fence_text(last) .. label, 'PX', px)
      keep_floor(last, ttl)
      if was_shared then tighten() end
    else
      call('ZADD', holders, now + ttl, owner)
      call('HSET', waiters, 'h' .. owner, string.format('r%09.0f%.0f%s', 1, last, label))
      shared, longest = 'r', ttl
      settle(flagged and 'q' or '-')
    end
    return {1, fence_text(last), now, expired}
  end
  if living > 0 then
    local one = call('ZRANGE', holders, -1, -1, 'WITHSCORES')
    holder, left = one[1], one[2] - now
  else
    left = 0 -- too many dead ones for one script
  end
end
if inbox ~= '' and waiter ~= '' and type(redis.pcall('ZADD', watchers, now + HEARTBEAT, waiter .. inbox)) == 'number' then
  call('PEXPIRE', watchers, HEARTBEAT)
  call('ZREMRANGEBYRANK', watchers, 0, -SWEEP)
  if value and FRONT_OF(value) == 'x1h' then call('SET', main, 'x1g' .. AFTER_FLAG_OF(value), 'KEEPTTL') end
end
return {0, now, holder, left}
