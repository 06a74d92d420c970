-- Removes fences below a limit.
-- KEYS    fence keys
-- ARGV    the limit
-- RETURN  how many were removed
local removed, limit = 0, ARGV[1]
for _, key in ipairs(KEYS) do
  local seen = redis.pcall('GET', key)
  if type(seen) == 'string' and string.find(seen, '^%d+$') and (#seen < #limit or #seen == #limit and seen < limit) then
    removed = removed + redis.call('DEL', key)
  end
end
return removed
