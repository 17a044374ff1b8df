-- The second part of append.lua on one server: a batch. Each entity is one append that is done or
-- not, whatever becomes of the others.
--
-- KEYS: the heads. The other keys of an entity have the head's name with an ending.
-- ARGV: for each of them how many words it has, and its words.
--
-- ANSWER: when, then for each its version or the error that it ended with; of one entity the error alone.

local answers, entity, place = {}, 0, 1
local function go_on()
  while entity < #KEYS do
    entity = entity + 1
    local head, first = KEYS[entity], place + 1
    place = first + ARGV[place]
    answers[entity + 1] = append(head, head .. ':log', head .. ':marks', nil, nil, first, place - 1)
  end
end

if #KEYS == 1 then go_on() end
while entity < #KEYS do
  local ran, failed = pcall(go_on)
  if not ran then
    answers[entity + 1] = type(failed) == 'string' and redis.error_reply(failed) or failed
  end
end
answers[1] = at
return answers
