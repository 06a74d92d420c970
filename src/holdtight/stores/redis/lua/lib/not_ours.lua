-- The answer to an owner that does not hold the name: whether an operator has released its grant by force.
-- EXPECTS  owner waiters
-- LEAVES   not_ours
--
-- A forced grant leaves  'k'owner → until(13) its fence(16) the fence of the release(16) at(16, µs) id(32) next owner
local function not_ours(holder)
  local forced = redis.pcall('HGET', waiters, 'k' .. owner)
  if type(forced) ~= 'string' then return {0, holder} end
  return {0, holder, FORCED_FENCE_OF(forced)}
end
