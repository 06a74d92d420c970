-- Runs commands if the stored fences are exactly these.
-- KEYS    the fence key of each name, then the first key of each command, so that a cluster finds the slot
-- ARGV    how many names, the fence of each, then each command: how many words, the words
-- RETURN  {0, reply...} the replies of the commands | {position, fence}: that name has another fence, '' if none
local names = tonumber(ARGV[1])
for i = 1, names do
  local seen = redis.call('GET', KEYS[i])
  if seen ~= ARGV[i + 1] then return {i, seen or ''} end
end
local replies, at = {0}, names + 2
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  replies[#replies + 1] = redis.call(unpack(ARGV, at + 1, at + count))
  at = at + count + 1
end
return replies
