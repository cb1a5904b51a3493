-- Which chain of digests begins like which: as in chain.py. A lease's digests have a key of their own.

local DIGEST = 8
local chain = {}

local function digests_key(lease) return AT .. 'd:' .. lease.id end
local function body_key(lease) return AT .. 'b:' .. lease.id end

function chain.at(lease, strides)
  return call('GETRANGE', digests_key(lease), (strides - 1) * DIGEST, strides * DIGEST - 1)
end

-- Whether a lease's tokens are the first ones of new terms, whose digests are given.
function chain.begins(lease, longer, digests, named)
  if lease.key_id ~= longer.key_id or lease.stride ~= longer.stride or lease.tokens > longer.tokens then return false end
  local whole, rest = math.floor(lease.tokens / lease.stride), lease.tokens % lease.stride
  if whole > 0 and chain.at(lease, whole) ~= string.sub(digests, (whole - 1) * DIGEST + 1, whole * DIGEST) then
    return false
  end
  if rest > 0 and lease.tokens == longer.tokens then return call('GET', digests_key(lease)) == digests end
  return rest == 0 or named
end

function chain.matched(lease, prompt, digests)
  if lease.key_id ~= prompt.key_id or lease.stride ~= prompt.stride then return 0 end
  local whole = math.floor(lease.tokens / lease.stride)
  for i = #prompt.strides, 1, -1 do
    local strides = prompt.strides[i]
    if strides <= whole and chain.at(lease, strides) == string.sub(digests, (i - 1) * DIGEST + 1, i * DIGEST) then
      return strides * lease.stride
    end
  end
  return 0
end
