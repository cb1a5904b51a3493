-- Sessions: as in sessions.py.

local sessioning = {}

local function reap_in_time(session) ledger.at(session.heartbeat_at + rules.hold, 'reap', session.id) end

local function retire_all(session)
  for _, lease in ipairs(ledger.held_by(session)) do
    if lease.state == FREEING then life.free(lease) else life.retire(lease, OWNER_LOST) end
  end
end

local function profile_key(session) return AT .. 'p:' .. session.id end

function sessioning.open(engine)
  local known = get(engines, engine.engine_id) or {}
  local drained = false
  for _, session_id in ipairs(known) do
    local before = get(sessions, session_id)
    before.open = false
    if not same_engine(before, engine) then retire_all(before) else drained = drained or before.drained end
  end
  local session = {
    id = engine.id, secret = engine.secret, engine_id = engine.engine_id, incarnation = engine.incarnation,
    models = engine.models, total_blocks = engine.total_blocks,
    budget = math.floor(rules.retention * engine.total_blocks), heartbeat_at = ledger.now,
    open = true, draining = false, drained = drained, load = '', orders = {}, notices = {}, number = 0, acknowledged = -1,
    live_leases = 0, leased_blocks = 0, claimed_blocks = 0, kept_blocks = 0, freeing_blocks = 0, reported_blocks = 0,
    granted_since = 0, sent = {0, ledger.now}, promised_from = -math.huge,
  }
  set(sessions, session.id, session)
  write('SET', profile_key(session), engine.profile, 'PX', KEEP)
  known[#known + 1] = session.id
  set(engines, engine.engine_id, known)
  enter(list('i', ''), engine.engine_id, 1)
  reap_in_time(session)
  return session
end

local function forget(session, lease_id)
  session.orders[lease_id] = nil
  local lease = get(leases, lease_id)
  if lease and lease.owner == session.id then life.free(lease, RELEASED) end
end

-- Lets go of what the owner has freed. What it was told long ago and never names, it does not have.
local function confirm(session, freed)
  for _, lease_id in ipairs(freed) do forget(session, lease_id) end
  for _, lease_id in ipairs(session_of.receive_orders(session)) do
    ledger.at(ledger.now + rules.hold, 'forget_unnamed', session.id .. ' ' .. lease_id)
  end
end

function acts.forget_unnamed(key)
  local session_id, lease_id = string.match(key, '^(%S+) (.*)$')
  local session = get(sessions, session_id)
  if session and session.orders[lease_id] then forget(session, lease_id) end
end

local function reclaim(session, blocks)
  local missing = blocks - session.freeing_blocks
  if missing <= 0 or ledger.quiet() then return end
  for _, lease in ipairs(least_valuable(ledger.held_by(session))) do
    life.retire(lease, REVOKED)
    missing = missing - lease.blocks
    if missing <= 0 then return end
  end
end

-- Gives the answer's number, leases to free with reasons, and leases with what remains of them.
function sessioning.heartbeat(credential, beat)
  local session = ledger.session(credential)
  session_of.acknowledge(session, beat.received)
  session.heartbeat_at, session.draining, session.load = ledger.now, beat.draining, beat.load
  session.reported_blocks, session.granted_since = beat.leased, 0
  write('PEXPIRE', profile_key(session), KEEP)
  confirm(session, beat.freed)
  for _, lease_id in ipairs(beat.renew) do
    local lease = get(leases, lease_id)
    if lease and lease.owner == session.id then renewals.extend(lease) end
  end
  reclaim(session, beat.reclaim)
  local number, orders, remaining = session_of.answer(session), {}, {}
  for lease_id, order in pairs(session.orders) do
    if not order.received then orders[#orders + 1] = {lease_id, order.reason} end
  end
  for lease_id in pairs(session.notices) do
    local lease = get(leases, lease_id)
    if lease.state == LIVE then remaining[#remaining + 1] = {lease_id, math.max(0, lease.expires_at - ledger.now)} end
  end
  return number, orders, remaining
end

function sessioning.drain(engine_id, undo)
  local found = false
  for _, session_id in ipairs(get(engines, engine_id) or {}) do
    local session = get(sessions, session_id)
    if session.open then session.drained, found = not undo, true end
  end
  if not found then refuse('EngineNotFound', engine_id) end
end

function sessioning.close(credential)
  local session = ledger.any_session(credential)
  session.open = false
  retire_all(session)
end

-- Lets go of a session that was silent for `hold`: no claim reaches so far, and the owner frees by itself.
function acts.reap(session_id)
  local session = get(sessions, session_id)
  if session.heartbeat_at + rules.hold > ledger.now then return reap_in_time(session) end
  session.open = false
  for _, lease in ipairs(ledger.held_by(session)) do life.free(lease) end
  set(sessions, session_id, nil)
  write('DEL', profile_key(session))
  local left = {}
  for _, other in ipairs(get(engines, session.engine_id)) do
    if other ~= session_id then left[#left + 1] = other end
  end
  if #left > 0 then
    set(engines, session.engine_id, left)
  else
    set(engines, session.engine_id, nil)
    leave(list('i', ''), session.engine_id)
  end
end
