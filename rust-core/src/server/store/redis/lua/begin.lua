-- Claims a call. Sent again with the same token it gives the same answer.
-- KEYS: epoch, call; of a numbered call also its client and the numbers that its client has begun.
-- ARGV: epoch, token, digest, lease, hold, hold of clients (ms), number or '', mark (20 digits each), '1' if it is a
--       repetition that may have been elsewhere, what the keys of calls of this principal begin with, what this one ends with,
--       '1' if it is known from elsewhere that it was not executed.
-- Returns: {'epoch'} | {'run'} | {'done', answer} | {'unknown'} | {'mismatch'} | {'running', ms}
local epoch, token, digest, lease, hold, number = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[7]
local id, born = unpack(redis.call('HMGET', KEYS[1], 'id', 'born'))
if id ~= epoch then return { 'epoch' } end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local numbered = number ~= ''
local free = ARGV[12] == '1'
local since

if numbered then
  local client, begun, mark = KEYS[3], KEYS[4], nil
  mark, since = unpack(redis.call('HMGET', client, 'mark', 'since'))
  if not mark then
    -- A client that is not known may have been forgotten, once that can have happened to anybody.
    mark, since = '', now - born < tonumber(ARGV[6]) and '' or '99999999999999999999'
  end
  if ARGV[8] > mark then mark = ARGV[8] end
  redis.call('HSET', client, 'mark', mark, 'since', since)
  redis.call('PEXPIRE', client, ARGV[6])
  -- What is below the mark will never be asked for again: answers are let go of. A few at a time.
  local below = redis.call('ZRANGEBYLEX', begun, '-', '(' .. mark, 'LIMIT', 0, 64)
  for _, member in ipairs(below) do
    local key = ARGV[10] .. string.sub(member, 22)
    if redis.call('HGET', key, 'state') == 'done' then redis.call('DEL', key) end
    redis.call('ZREM', begun, member)
  end
  if number < mark then return { 'unknown' } end
end

local state, owner, known, until_ = unpack(redis.call('HMGET', KEYS[2], 'state', 'token', 'digest', 'until'))
if state then
  if known ~= digest then return { 'mismatch' } end
  if state == 'done' then
    -- Written to, so that WAIT covers an answer that another server has stored.
    redis.call('PEXPIRE', KEYS[2], redis.call('PTTL', KEYS[2]))
    local answer = redis.call('HGET', KEYS[2], 'answer')
    return answer and { 'done', answer } or { 'unknown' }
  end
  if state == 'running' and owner ~= token then
    if tonumber(until_) > now then return { 'running', until_ - now } end
    -- Its server is gone, or takes itself for something that it no longer is.
    redis.call('HSET', KEYS[2], 'state', 'unknown')
    redis.call('PEXPIRE', KEYS[2], hold)
    state = 'unknown'
  end
  if state == 'unknown' and not free then return { 'unknown' } end
elseif numbered and not free then
  -- Its record may be gone: that it has begun is not forgotten with it.
  if #redis.call('ZRANGEBYLEX', KEYS[4], '[' .. number .. ':', '(' .. number .. ';', 'LIMIT', 0, 1) > 0 then
    return { 'unknown' }
  end
  if number < since then
    if ARGV[9] == '1' then return { 'unknown' } end
    redis.call('HSET', KEYS[3], 'since', number)
  end
end
if numbered then
  redis.call('ZADD', KEYS[4], 0, number .. ':' .. ARGV[11])
  redis.call('PEXPIRE', KEYS[4], ARGV[6])
end
redis.call('HSET', KEYS[2], 'state', 'running', 'token', token, 'digest', digest, 'until', now + lease)
redis.call('PEXPIRE', KEYS[2], lease + hold)
return { 'run' }
