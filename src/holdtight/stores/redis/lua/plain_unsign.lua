-- Begins the release of a plain lock whose value is a text that the caller chose. Other callers may choose the same
-- text, and a late delete could hit their lock. So a unique cover replaces the text (or a former cover). The cover is
-- deleted like any owner, once no other request for the text can still arrive.
-- KEYS    lock
-- ARGV    former text cover known not_after
-- RETURN  {2, expiry, now} covered | {0, 0, now} not there | {-2, expiry, now} another expiry than the known one
-- RETURN  {-1, 0, now} late
-- known: the expiry that the sender last knew; '' if it has none.
--@include plain_time
if now_us > tonumber(not_after) then return {-1, 0, now} end
local value = call('GET', lock)
if value ~= former and value ~= text and value ~= cover then return {0, 0, now} end
--@include plain_known
if value ~= cover then
  if not known_matches then return {-2, expiry, now} end
  call('SET', lock, cover, 'KEEPTTL')
end
return {2, expiry, now}
