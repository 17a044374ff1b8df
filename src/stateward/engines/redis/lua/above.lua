local function above(op, other)
  if BY_BYTES then return op > other end
  for i = 1, math.min(#op, #other) do
    local a, b = string.byte(op, i), string.byte(other, i)
    if a ~= b then return a > b end
  end
  return #op > #other
end
