-- What each append reads and moves stands in one field of the head, the tip, as numbers of 8 bytes: that costs a
-- third of what nine fields of text cost. commit.lua describes it. This stands before every script that looks at one.

-- version, commits, updated, expires (0: never), retain (0: for ever), easy, filed, stamp, top
local function tip_of(packed)
  local version, commits, updated, expires, retain, easy, filed, stamp, place = struct.unpack(TIP, packed)
  local top = place > #packed and stamp or string.sub(packed, place)
  return version, commits, updated, expires, retain, easy, filed, stamp, top
end

local function tip_from(version, commits, updated, expires, retain, easy, filed, stamp, top)
  return struct.pack(TIP, version, commits, updated, expires, retain, easy, filed, #stamp, stamp)
    .. (top == stamp and '' or top)
end

-- Whether an op is greater than another one, by bytes.
--include above
