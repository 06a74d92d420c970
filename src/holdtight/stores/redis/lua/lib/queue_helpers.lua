-- Functions for names that have, or may have, a queue of waiters.
-- EXPECTS  TAIL now now_us queue waiters
-- LEAVES   keep fence_text memory_of keep_floor is_alive leave_queue
--
-- A waiters hash has  owner(24) → waiter,  'h'owner → holder,  'm'owner → marker, see mark.lua,
--     'k'owner → a grant that was released by force, see not_ours.lua,
--     'e' → the last ms at which a marker, or one of those, counts,  'f' → fence floor,
--     'c' → score up to which all waiters are passed over, see hand_over.
-- A waiter is  mode(1) mark(1) expiry(13) ttl(9) joined(13) #inbox(2) inbox, if mode is 'p' n(9) permits(9), label
-- A holder is  mode(1) n(9) fence(16) label,  and the holders set has its owner's expiry (ms).
-- mode is 'x' exclusive, 'r' to read, 'p' for n permits if at most `permits` are then in use.

local function keep(key, ms)
  if call('PTTL', key) < ms then call('PEXPIRE', key, ms) end
end

local function fence_text(fence)
  return string.format('%.0f', fence)
end

-- How long a key must stay: its fence is remembered until TAIL after the clock has passed it.
local function memory_of(fence)
  return math.max(math.ceil((fence - now_us) / 1000), 0) + TAIL
end

-- A fence ahead of the clock (the clock was set back) must outlive its holder.
local function keep_floor(fence, ttl)
  if fence > now_us + ttl * 1000 then
    call('HSET', waiters, 'f', fence_text(fence))
    keep(waiters, memory_of(fence))
  end
end

local function is_alive(entry)
  return entry and tonumber(EXPIRY_OF(entry)) > now
end

local function leave_queue(owner)
  call('ZREM', queue, owner)
  call('HDEL', waiters, owner)
end
