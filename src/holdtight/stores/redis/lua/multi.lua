-- Acquires several names in one step if each is available at once: no waiters, no expired holders to remove, and the
-- request fits. Otherwise changes nothing; the client then attempts the names one by one.
-- KEYS    ...
-- ARGV    not_after owner ...
-- RETURN  {1, now, fence, …} in the order of the names | {0, now, place of the first that is not} | {-1, now} late
-- Four keys per name: main queue waiters holders. Six arguments per name: mode n permits ttl px label.
local time = call('TIME')
local seconds, micros = time[1], time[2]
local now_us = seconds * 1000000 + micros
local now = math.floor(now_us / 1000)
if now_us > tonumber(not_after) then return {-1, now} end
if #seconds ~= 10 then
  return redis.error_reply("HTCLOCK the server's clock is not set: fences are made of its time")
end
--@include constants
local text = seconds .. sub('00000' .. micros, -6)
local names, spans = #K / 4, {}
for i = 1, names do
  local main, waiters, holders = K[4 * i - 3], K[4 * i - 1], K[4 * i]
  local mode, n, permits = A[6 * i - 3], tonumber(A[6 * i - 2]), tonumber(A[6 * i - 1])
  local value = call('GET', main)
--@include read_main
  local room = not flagged and last < now_us and left <= 0 and expired == ''
  if mode == 'x' then
    room = room and not shared
  else
    local out = call('ZCARD', holders) -- before the first write: it may be somebody else's key
    call('HLEN', waiters)
    room = room and (kind == 't1' or shared == mode and #value == 19) and (mode == 'r' or n <= permits)
    spans[i] = tonumber(A[6 * i + 1])
    if room and shared then
      room = #call('ZRANGEBYSCORE', holders, '-inf', now, 'LIMIT', 0, 1) == 0 and (mode == 'r' or out + n <= permits)
      spans[i] = math.max(spans[i], call('PTTL', holders))
    elseif out > 0 then
      room = false
    end
  end
  if not room then return {0, now, i} end
end
local reply = {1, now}
for i = 1, names do
  local main, waiters, holders = K[4 * i - 3], K[4 * i - 1], K[4 * i]
  local mode, n, ttl, px, label = A[6 * i - 3], A[6 * i - 2], A[6 * i], A[6 * i + 1], A[6 * i + 2]
  if mode == 'x' then
    call('SET', main, 'x1-' .. owner .. text .. label, 'PX', px)
  else
    local span = spans[i]
    call('ZADD', holders, now + ttl, owner)
    call('HSET', waiters, 'h' .. owner, mode .. sub('00000000' .. n, -9) .. text .. label)
    call('PEXPIRE', holders, span)
    call('PEXPIRE', waiters, span)
    call('SET', main, (mode == 'r' and 's1-' or 'p1-') .. text .. (tonumber(n) > 1 and '+' or ''), 'PX', span)
  end
  reply[i + 2] = text
end
return reply
