-- The epoch of the fleet: a new one if there is none (an empty data set), or if this is another Redis process than
-- the one that it was made with, unless processes are trusted to keep what they acknowledged.
-- KEYS: epoch. ARGV: candidate, run id, '1' if restarts are trusted.
local id, run = unpack(redis.call('HMGET', KEYS[1], 'id', 'run'))
local t = redis.call('TIME')
if not id or (run ~= ARGV[2] and ARGV[3] ~= '1') then
  id = ARGV[1]
  redis.call('HSET', KEYS[1], 'id', id, 'run', ARGV[2], 'born', t[1] * 1000 + math.floor(t[2] / 1000))
elseif run ~= ARGV[2] then
  redis.call('HSET', KEYS[1], 'run', ARGV[2])
end
return id
