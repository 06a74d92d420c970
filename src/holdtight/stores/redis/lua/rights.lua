-- Tries every command that the other scripts use, on keys that no lock uses. Leaves no key behind.
-- KEYS    text hash set channel ...
-- ARGV    inbox [passport] ...
-- RETURN  {inbox, command, …} the sender's inbox, and the commands that its user may not run
-- Only a node of a quorum gets a passport.
local refused = {inbox}
local function try(...)
  local said = redis.pcall(...)
  local text = type(said) == 'table' and said.err or ''
  for _, sign in ipairs({'NOPERM', "can't run", "can't access", 'ACL failure'}) do
    if string.find(text, sign, 1, true) then
      local words = {...}
      refused[#refused + 1] = string.lower(words[1] == 'PUBSUB' and words[1] .. '|' .. words[2] or words[1])
      return false
    end
  end
  return true
end
try('TIME')
try('GET', text)
try('GETEX', text)
try('EXISTS', text)
try('PTTL', text)
try('PEXPIRE', text, 1)
if try('DEL', text) then try('SET', text, '1', 'PX', 1) end
if try('HDEL', hash, 'a') then try('HSET', hash, 'a', '1') end
try('HGET', hash, 'a')
try('HMGET', hash, 'a')
try('HLEN', hash)
try('HRANDFIELD', hash, 1, 'WITHVALUES')
if try('ZREM', set, 'a') then try('ZADD', set, 1, 'a') end
try('ZRANGE', set, 0, 0)
try('ZRANGEBYSCORE', set, 0, 1)
try('ZSCORE', set, 'a')
try('ZCARD', set)
try('ZCOUNT', set, 0, 1)
try('ZRANK', set, 'a')
if passport then try('ZREMRANGEBYRANK', set, 0, 0) end -- of the waiters that a vote denies
try('PUBLISH', channel, '')
try('PUBSUB', 'NUMSUB', channel)
redis.pcall('HDEL', hash, 'a')
redis.pcall('ZREM', set, 'a')
redis.pcall('DEL', text)
return refused
