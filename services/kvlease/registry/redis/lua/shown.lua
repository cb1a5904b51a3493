-- What operations give away: as in shown.py and lists.py. Numbers with fractions travel as text.

local CHUNK = 256
local shown = {}

local function exact(number) return string.format('%.17g', number) end

-- A lease; `whole` with its digests and body.
function shown.lease(lease, whole)
  local now = ledger.now
  local remaining = lease.state == LIVE and math.max(0, lease.expires_at - now) or 0
  return {
    lease.told, exact(lease.seq), exact(lease.generation), lease.stop_reason, lease.state, lease.reason,
    exact(remaining), exact(now - lease.granted_at), exact(now - lease.used_at), lease.claims,
    whole and call('GET', digests_key(lease)) or '', whole and call('GET', body_key(lease)) or '',
  }
end

function shown.takes(wanted, lease)
  return lease.tenant == wanted.tenant
    and (wanted.conversation_id == '' or wanted.conversation_id == lease.conversation_id)
    and (wanted.engine_id == '' or wanted.engine_id == lease.engine_id)
    and (wanted.kind == 0 or wanted.kind == lease.kind)
    and (wanted.state == 0 or wanted.state == lease.state)
end

local function of_engine(engine_id)
  local found = {}
  for _, session_id in ipairs(get(engines, engine_id) or {}) do
    for _, lease in ipairs(ledger.held_by(get(sessions, session_id))) do found[#found + 1] = lease end
  end
  table.sort(found, function(a, b) return a.seq < b.seq end)
  return found
end

-- Calls `visit` with leases after a number, oldest first, until it returns true.
function shown.each(wanted, after, visit)
  local all
  if wanted.conversation_id ~= '' then
    all = ledger.of(ledger.chat(wanted.tenant, wanted.conversation_id))
  elseif wanted.engine_id ~= '' then
    all = of_engine(wanted.engine_id)
  end
  for _, lease in ipairs(all or {}) do
    if lease.seq > after and visit(lease) then return end
  end
  while not all and after do
    local ids, last = members(roll(wanted.tenant), after, CHUNK)
    fetch(leases, ids)
    for _, id in ipairs(ids) do
      if visit(get(leases, id)) then return end
    end
    after = last
  end
end

-- At most so many, and after which one to go on; of any state only if `every`, else live ones unless a state is wanted.
function shown.page(wanted, after, size, whole, every)
  local found, next_after = {}, 0
  shown.each(wanted, after, function(lease)
    local of_state = every or wanted.state ~= 0 or lease.state == LIVE
    if not of_state or not shown.takes(wanted, lease) then return false end
    if #found == size then
      next_after = tonumber(found[#found][2])
      return true
    end
    found[#found + 1] = shown.lease(lease, whole)
    return false
  end)
  return found, exact(next_after)
end

local function overdue() return rules.missed_heartbeats * rules.heartbeat end

local function in_time(session)
  if ledger.now - session.heartbeat_at < overdue() then return true end
  return session.heartbeat_at > boot.stood_from - overdue() and ledger.now - boot.stood_to < overdue()
end

local function serves(session, model)
  if model == '' then return true end
  for _, name in ipairs(session.models) do
    if name == model then return true end
  end
  return false
end

local function engine(session)
  local draining = session.draining or session.drained
  return {
    session.engine_id, session.incarnation, session.models, exact(session.total_blocks),
    call('GET', profile_key(session)) or '', session.load, in_time(session) and not draining and 1 or 0,
    draining and 1 or 0, exact(ledger.now - session.heartbeat_at), exact(session.live_leases),
    exact(session.leased_blocks), exact(session.claimed_blocks), exact(session.budget),
  }
end

function shown.engines(model, include_lost)
  local ids, found = members(list('i', '')), {}
  table.sort(ids)
  for _, engine_id in ipairs(ids) do
    local known = get(engines, engine_id)
    local session = get(sessions, known[#known])
    local silent = ledger.now - session.heartbeat_at
    if session.open and serves(session, model) and (include_lost or silent < overdue()) then
      found[#found + 1] = engine(session)
    end
  end
  return found
end
