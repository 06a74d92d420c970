-- Raises the stored fences of one or more names, all or none.
-- KEYS    the fence key of each name
-- ARGV    the fence of each name
-- RETURN  0 claimed | {position, highest}: that name has seen a higher fence
for i, key in ipairs(KEYS) do
  local seen, fence = redis.call('GET', key), ARGV[i]
  if seen and not string.find(seen, '^%d+$') then
    return redis.error_reply('FOREIGN ' .. key)
  end
  -- As text: numbers of Lua end at 2^53.
  if seen and (#seen > #fence or #seen == #fence and seen > fence) then return {i, seen} end
end
for i, key in ipairs(KEYS) do redis.call('SET', key, ARGV[i]) end
return 0
