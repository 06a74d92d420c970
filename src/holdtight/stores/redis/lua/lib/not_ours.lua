-- The answer to an owner that does not hold the name: whether an operator has released its grant by force.
-- EXPECTS  fence main owner waiters
-- LEAVES   not_ours
--
-- A forced grant leaves  'k'owner → until(13) its fence(16) the fence of the release(16) at(16, µs) id(32) next owner
--
-- Only a server that takes writes may say this. GETEX without options changes nothing, but is a write: a replica, or a
-- master that has lost its replicas (min-replicas-to-write), refuses it, and the script fails.
local function not_ours(holder)
  call('GETEX', main)
  local forced = redis.pcall('HGET', waiters, 'k' .. owner)
  if type(forced) ~= 'string' then return {0, holder} end
  if fence and FORCED_FENCE_OF(forced) ~= fence then return {0, holder} end -- another grant of this owner was forced
  return {0, holder, FORCED_FENCE_OF(forced)}
end
