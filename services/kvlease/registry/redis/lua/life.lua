-- The moves of a lease: as in life.py.

local LET_GO = {[EXPIRED] = true, [ENDED] = true, [REVOKED] = true, [BRANCH_LIMIT] = true}
local life = {}

local function owner_of(lease) return get(sessions, lease.owner) end
local function chat_of(lease) return ledger.chat(lease.tenant, lease.conversation_id) end

function life.tally(lease, sign)
  session_of.tally(owner_of(lease), lease, sign)
  if lease.kind == DECODE and lease.state == LIVE then
    local tenant = get(tenants, lease.tenant)
    tenant.live = tenant.live + sign
  end
end

local function move(lease, state)
  life.tally(lease, -1)
  lease.state = state
  life.tally(lease, 1)
end

local function expire_in_time(lease) ledger.at(lease.expires_at, 'expire', lease.id) end

-- Tells the value policy how long the next turn let wait for it, or that none came in so long.
local function learn(lease, reason)
  if lease.returned or lease.kind == PREFILL then return end
  local gap = ledger.now - lease.granted_at
  if reason == SUPERSEDED then
    value.returned(lease.stop_reason, gap)
  elseif LET_GO[reason] then
    value.lapsed(lease.stop_reason, gap)
  end
end

function life.add(lease)
  set(gone, lease.id, nil)
  set(leases, lease.id, lease)
  enter(held(lease.owner), lease.id, lease.seq)
  if lease.conversation_id ~= '' then ledger.branches(chat_of(lease)).leases[lease.id] = true end
  local tenant = get(tenants, lease.tenant) or {live = 0, count = 0}
  tenant.count = tenant.count + 1
  set(tenants, lease.tenant, tenant)
  enter(roll(lease.tenant), lease.id, lease.seq)
  life.tally(lease, 1)
  expire_in_time(lease)
  ledger.tell(GRANTED, lease)
end

function life.adopt(lease, session)
  if lease.owner == session.id then return end
  local before = owner_of(lease)
  life.tally(lease, -1)
  leave(held(before.id), lease.id)
  lease.owner = session.id
  enter(held(session.id), lease.id, lease.seq)
  before.notices[lease.id] = nil
  session.notices[lease.id] = 0
  if before.orders[lease.id] then
    before.orders[lease.id] = nil
    session_of.order(session, lease.id, lease.reason)
  end
  life.tally(lease, 1)
end

local function leave_use(lease, reason)
  lease.reason = reason
  move(lease, RETIRING)
  ledger.tell(RETIRED, lease)
  ledger.touch('turn', lease.ticket_id)
  learn(lease, reason)
end

function life.free(lease, reason)
  if lease.state == LIVE then leave_use(lease, reason or OWNER_LOST) end
  local owner = owner_of(lease)
  move(lease, FREED)
  set(leases, lease.id, nil)
  write('DEL', digests_key(lease), body_key(lease))
  leave(held(owner.id), lease.id)
  owner.orders[lease.id] = nil
  owner.notices[lease.id] = nil
  if lease.conversation_id ~= '' then ledger.branches(chat_of(lease)).leases[lease.id] = nil end
  leave(roll(lease.tenant), lease.id)
  local tenant = get(tenants, lease.tenant)
  tenant.count = tenant.count - 1
  if tenant.count == 0 then set(tenants, lease.tenant, nil) end
  ledger.bury(lease.id, owner)
  ledger.tell(GONE, lease)
  ledger.touch('lease', lease.id)
end

function life.settle(lease)
  if lease.state ~= RETIRING or lease.claims > 0 then return end
  local owner = owner_of(lease)
  if ledger.quiet() then
    ledger.at(boot.quiet_until, 'settle', lease.id)
  elseif owner.open then
    move(lease, FREEING)
    session_of.order(owner, lease.id, lease.reason)
    ledger.touch('lease', lease.id)
  else
    life.free(lease)
  end
end

function life.retire(lease, reason)
  if lease.state ~= LIVE then return false end
  leave_use(lease, reason)
  life.settle(lease)
  return true
end

function life.retire_all(all, reason)
  local live = 0
  for _, lease in ipairs(all) do
    if life.retire(lease, reason) then live = live + 1 end
  end
  return live
end

function acts.settle(lease_id)
  local lease = get(leases, lease_id)
  if lease then life.settle(lease) end
end

function acts.expire(lease_id)
  local lease = get(leases, lease_id)
  if not lease or lease.state ~= LIVE then return end
  if lease.expires_at > ledger.now then expire_in_time(lease) else life.retire(lease, EXPIRED) end
end
