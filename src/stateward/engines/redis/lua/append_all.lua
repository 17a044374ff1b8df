-- append.lua for a batch, on one server. Each entity is one append that is done or not, whatever becomes of the
-- others.
--
-- KEYS: the heads. The other keys of an entity have the head's name with an ending.
-- ARGV: how many words each of them has, in two bytes, the higher one first · the words of all.
--
-- ANSWER: when, then for each its version, 0, or the error that it ended with.

local by_bytes = BY_BYTES
local at, now
local function append(head, log, marks, first, last)
  local keys, keys2
  --include append
  return version
end

local answers, entity, place = {}, 0, 2
local function go_on()
  local sizes = ARGV[1]
  while entity < #KEYS do
    entity = entity + 1
    local head, first = KEYS[entity], place
    local high, low = string.byte(sizes, 2 * entity - 1, 2 * entity)
    place = first + 256 * high + low
    answers[entity + 1] = append(head, head .. ':log', head .. ':marks', first, place - 1)
  end
end

while entity < #KEYS do
  local ran, failed = pcall(go_on)
  if not ran then
    answers[entity + 1] = type(failed) == 'string' and redis.error_reply(failed) or failed
  end
end
answers[1] = at or ''
return answers
