-- Puts the caller's own text in the place of the owner under which a plain lock was taken.
-- KEYS    lock
-- ARGV    owner text
-- RETURN  1 done | 2 that text stands there already | 0 not ours
local value = call('GET', lock)
if value == owner then
  call('SET', lock, text, 'KEEPTTL')
  return 1
end
return value == text and 2 or 0
