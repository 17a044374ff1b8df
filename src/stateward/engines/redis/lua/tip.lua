-- What each append reads and moves stands in one field of the head, the tip, as numbers of 8 bytes: that costs a
-- third of what nine fields of text cost. commit.lua describes it. This stands before every script that looks at one.

local TIP = '<dddddddI4'

-- version, commits, updated, expires (0: never), retain (0: for ever), easy, filed, stamp, top
local function tip_of(packed)
  local version, commits, updated, expires, retain, easy, filed, size = struct.unpack(TIP, packed)
  local stamp, top = string.sub(packed, 61, 60 + size), string.sub(packed, 61 + size)
  return version, commits, updated, expires, retain, easy, filed, stamp, top == '' and stamp or top
end

local function tip_from(version, commits, updated, expires, retain, easy, filed, stamp, top)
  return struct.pack(TIP, version, commits, updated, expires, retain, easy, filed, #stamp) .. stamp
    .. (top == stamp and '' or top)
end

-- Whether an op is greater than another one, by bytes. The server's language decides what > means.
local by_bytes = '-' < '0' and 'Z' < '_' and '_' < 'a'
local function above(op, other)
  if by_bytes then return op > other end
  for i = 1, math.min(#op, #other) do
    local a, b = string.byte(op, i), string.byte(other, i)
    if a ~= b then return a > b end
  end
  return #op > #other
end
