-- Takes a claim back: the call has not been run.
-- KEYS: call, and of a numbered one the numbers that its client has begun. ARGV: token, its entry among them.
local state, owner = unpack(redis.call('HMGET', KEYS[1], 'state', 'token'))
if owner == ARGV[1] and state == 'running' then
  redis.call('DEL', KEYS[1])
  if KEYS[2] then redis.call('ZREM', KEYS[2], ARGV[2]) end
end
return 1
