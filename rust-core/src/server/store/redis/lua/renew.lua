-- Renews the leases of running calls.
-- KEYS: epoch, calls. ARGV: lease, hold (ms), a token for each call.
-- Returns: the epoch (nil if it is gone), then 1 for each call that is still ours and 0 for each other.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local out = { redis.call('HGET', KEYS[1], 'id') }
for i = 2, #KEYS do
  local state, owner = unpack(redis.call('HMGET', KEYS[i], 'state', 'token'))
  out[i] = 0
  if state == 'running' and owner == ARGV[i + 1] then
    redis.call('HSET', KEYS[i], 'until', now + ARGV[1])
    redis.call('PEXPIRE', KEYS[i], ARGV[1] + ARGV[2])
    out[i] = 1
  end
end
return out
