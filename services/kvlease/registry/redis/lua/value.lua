-- What a lease is worth when some must go: as in value.py and worth.py; `POLICY` is the one that was chosen.

local BUCKETS = 32
local policies = {}

policies.recent = {
  worth = function(lease) return lease.renewed_at end,
  returned = function() end,
  lapsed = function() end,
}

local function bucket(seconds)
  local doublings = math.floor(math.log(math.max(seconds, 0.5)) / math.log(2))
  return math.min(BUCKETS - 1, math.max(0, doublings + 1))
end

local function seen(what, stop_reason)
  local key = what .. stop_reason
  local counts = get(learned, key)
  if not counts then
    counts = {}
    for i = 1, BUCKETS do counts[i] = 0 end
    set(learned, key, counts)
  end
  return counts
end

local function count(what, stop_reason, gap)
  local counts, i = seen(what, stop_reason), bucket(gap) + 1
  counts[i] = counts[i] + 1
end

local function chance(stop_reason, waited)
  local came, never, returns, lapses = 0, 0, seen('returned', stop_reason), seen('lapsed', stop_reason)
  for i = bucket(waited) + 1, BUCKETS do came, never = came + returns[i], never + lapses[i] end
  return (came + 1) / (came + never + 2)
end

policies['return'] = {
  worth = function(lease)
    return chance(lease.stop_reason, ledger.now - lease.granted_at) * lease.tokens / math.max(1, lease.blocks)
  end,
  returned = function(stop_reason, gap) count('returned', stop_reason, gap) end,
  lapsed = function(stop_reason, gap) count('lapsed', stop_reason, gap) end,
}

local value = policies[POLICY]

local function by_worth(of, first)
  local worths = {}
  for _, lease in ipairs(of) do worths[lease.id] = value.worth(lease) end
  table.sort(of, function(a, b)
    if first and first(a) ~= first(b) then return first(b) end
    if worths[a.id] ~= worths[b.id] then return worths[a.id] < worths[b.id] end
    return a.seq < b.seq
  end)
  return of
end

local function not_returned(lease) return not lease.returned end

-- Live, unclaimed DECODE leases, least valuable first; before all others those whose next turn has come.
local function least_valuable(of)
  local free = {}
  for _, lease in ipairs(of) do
    if lease.state == LIVE and lease.kind == DECODE and lease.claims == 0 then free[#free + 1] = lease end
  end
  return by_worth(free, not_returned)
end
