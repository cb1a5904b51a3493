-- What is kept, read at first use and written back when the operation is over: a fault on the way changes nothing.
-- Objects are packed whole, one key each; long lists are sorted sets, by order of arrival.

local call = redis.call
local BASE = KEYS[1]
local args = cjson.decode(ARGV[1])

local boot = call('GET', BASE .. ':boot')
if not boot then return {'Forgotten'} end
boot = cmsgpack.unpack(boot)
if boot.rules ~= RULES then return {'OtherRules'} end
local AT = BASE .. ':' .. boot.id .. ':'

local books, lists, writes = {}, {}, {}

local function write(...) writes[#writes + 1] = {...} end

local function book(letter)
  local made = {at = AT .. letter .. ':', known = {}, was = {}}
  books[#books + 1] = made
  return made
end

local function get(from, id)
  local found = from.known[id]
  if found == nil then
    local packed = call('GET', from.at .. id)
    found = packed and cmsgpack.unpack(packed) or false
    from.known[id], from.was[id] = found, packed
  end
  return found or nil
end

local function set(into, id, object)
  if object == nil then get(into, id) end -- whether there is anything to delete
  into.known[id] = object or false
end

-- Reads many at once.
local function fetch(from, ids)
  for first = 1, #ids, 1000 do
    local keys, asked = {}, {}
    for i = first, math.min(#ids, first + 999) do
      if from.known[ids[i]] == nil then
        keys[#keys + 1], asked[#asked + 1] = from.at .. ids[i], ids[i]
      end
    end
    if #keys > 0 then
      for i, packed in ipairs(call('MGET', unpack(keys))) do
        from.known[asked[i]], from.was[asked[i]] = packed and cmsgpack.unpack(packed) or false, packed
      end
    end
  end
end

local function list(letter, id)
  local at = AT .. letter .. ':' .. id
  local found = lists[at]
  if not found then
    found = {at = at, entered = {}, left = {}}
    lists[at] = found
  end
  return found
end

local function enter(into, id, seq) into.entered[id], into.left[id] = seq, nil end

local function leave(from, id) from.left[id], from.entered[id] = true, nil end

-- Members that came after a number, by order of arrival; at most so many of those stored are read.
local function members(of, after, limit)
  local found, seqs = {}, {}
  local stored = call('ZRANGE', of.at, '(' .. (after or 0), '+inf', 'BYSCORE', 'LIMIT', 0, limit or -1, 'WITHSCORES')
  for i = 1, #stored, 2 do
    if not of.left[stored[i]] and not of.entered[stored[i]] then
      found[#found + 1], seqs[stored[i]] = stored[i], tonumber(stored[i + 1])
    end
  end
  for id, seq in pairs(of.entered) do
    if seq > (after or 0) then found[#found + 1], seqs[id] = id, seq end
  end
  table.sort(found, function(a, b) return seqs[a] < seqs[b] end)
  return found, #stored == 2 * (limit or -1) and tonumber(stored[#stored]) or nil
end

local function save_book(from)
  for id, object in pairs(from.known) do
    local before = from.was[id]
    if object then
      local packed = cmsgpack.pack(object)
      if packed ~= before then call('SET', from.at .. id, packed, 'PX', KEEP) end
    elseif before then
      call('DEL', from.at .. id)
    end
  end
end

local function save_list(of)
  for id in pairs(of.left) do call('ZREM', of.at, id) end
  local entered = {}
  for id, seq in pairs(of.entered) do
    entered[#entered + 1], entered[#entered + 2] = seq, id
    if #entered == 1000 then
      call('ZADD', of.at, unpack(entered))
      entered = {}
    end
  end
  if #entered > 0 then call('ZADD', of.at, unpack(entered)) end
  if next(of.entered) then call('PEXPIRE', of.at, KEEP) end
end

local function save()
  for _, done in ipairs(writes) do call(unpack(done)) end
  for _, from in ipairs(books) do save_book(from) end
  for _, of in pairs(lists) do save_list(of) end
  call('SET', BASE .. ':boot', cmsgpack.pack(boot), 'PX', KEEP)
end
