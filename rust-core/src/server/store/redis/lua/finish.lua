-- Stores the answer of a call, if it is still ours. Sent again it gives the same answer.
-- KEYS: call. ARGV: token, hold (ms), the answer if it is kept.
-- Returns: 1, or 0 if the call has passed on.
local state, owner = unpack(redis.call('HMGET', KEYS[1], 'state', 'token'))
if owner ~= ARGV[1] or state == 'unknown' then return 0 end
if state == 'running' then
  redis.call('HSET', KEYS[1], 'state', 'done')
  redis.call('HDEL', KEYS[1], 'until')
  if ARGV[3] then redis.call('HSET', KEYS[1], 'answer', ARGV[3]) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
