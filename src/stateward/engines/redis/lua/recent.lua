-- A page of what was touched last, or first: the members of an index after a mark and, on one server, the
-- heads and documents that they stand for. Nothing is written. See commit.lua for the key space.
--
-- KEYS: 19 or 20 of commit.lua. ARGV: '1' for the oldest first · members at most · minute and id of the
-- mark, or '' and '' · what the names of heads begin with, or '' for none · fields of documents
--
-- ANSWER: the time, then for each member its id and minute and, on one server, all fields of its head and
-- the values of those fields of its documents.

local call = redis.call
local index, upwards, most = KEYS[1], ARGV[1] ~= '', tonumber(ARGV[2])

local function below(a, b) -- by bytes: < would ask the server's language
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- How many come before the mark and with it, whether or not what stood there still does.
local from = 0
if ARGV[3] ~= '' then
  local minute = ARGV[3]
  from = upwards and call('ZCOUNT', index, '-inf', '(' .. minute)
    or call('ZCOUNT', index, '(' .. minute, '+inf')
  local last = from + call('ZCOUNT', index, minute, minute)
  while from < last do
    local middle = math.floor((from + last) / 2)
    local id = call(upwards and 'ZRANGE' or 'ZREVRANGE', index, middle, middle)[1]
    if id == ARGV[4] or below(id, ARGV[4]) == upwards then from = middle + 1 else last = middle end
  end
end

local page = call(upwards and 'ZRANGE' or 'ZREVRANGE', index, from, from + most - 1, 'WITHSCORES')
local answer = {call('TIME')}
for i = 1, #page, 2 do
  local n = #answer
  answer[n + 1], answer[n + 2] = page[i], page[i + 1]
  if ARGV[5] ~= '' then
    local head = ARGV[5] .. string.gsub(page[i], '[^A-Za-z0-9_.~-]', function(character)
      return string.format('%%%02X', string.byte(character))
    end) .. '}'
    answer[n + 3] = call('HGETALL', head)
    if #ARGV > 5 then answer[n + 4] = call('HMGET', head .. ':docs', unpack(ARGV, 6)) end
  end
end
return answer
