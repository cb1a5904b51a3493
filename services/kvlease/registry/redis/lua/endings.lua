-- Leases taken out of use by those who may: as in endings.py.

local endings = {}

local function order_later(session, lease_id)
  ledger.at(boot.quiet_until, 'order_unknown', session.id .. ' ' .. lease_id)
end

local function release(session, lease_id)
  local lease = get(leases, lease_id)
  if not lease and not get(gone, lease_id) then
    if ledger.quiet() then
      order_later(session, lease_id)
      return false
    end
    ledger.bury(lease_id, session)
  end
  if not lease or not same_engine(lease, session) then return true end
  life.adopt(lease, session)
  life.retire(lease, RELEASED)
  return lease.state >= FREEING
end

-- Ids of what the owner frees now, and of what is still read.
function endings.release(credential, lease_ids)
  local session, released, claimed = ledger.session(credential), {}, {}
  for _, lease_id in ipairs(lease_ids or members(held(session.id))) do
    local into = release(session, lease_id) and released or claimed
    into[#into + 1] = lease_id
  end
  return released, claimed
end

function acts.order_unknown(key)
  local session_id, lease_id = string.match(key, '^(%S+) (.*)$')
  local session = get(sessions, session_id)
  if not session or not session.open or get(gone, lease_id) then return end
  local lease = get(leases, lease_id)
  if not lease then
    ledger.bury(lease_id, session)
    session_of.order(session, lease_id, RELEASED)
  elseif lease.owner == session_id then
    life.retire(lease, RELEASED)
  end
end

local function candidates(selection)
  local found = {}
  if #selection.lease_ids > 0 then
    for _, lease_id in ipairs(selection.lease_ids) do found[#found + 1] = get(leases, lease_id) end
  elseif selection.tenant then
    return ledger.of(ledger.chat(selection.tenant, selection.conversation_id))
  else
    for _, session_id in ipairs(get(engines, selection.engine_id) or {}) do
      for _, lease in ipairs(ledger.held_by(get(sessions, session_id))) do found[#found + 1] = lease end
    end
  end
  return found
end

function endings.revoke(selection)
  local wanted = {}
  for _, lease in ipairs(candidates(selection)) do
    local of_conversation = not selection.tenant
      or (lease.tenant == selection.tenant and lease.conversation_id == selection.conversation_id)
    if of_conversation and (selection.engine_id == '' or selection.engine_id == lease.engine_id) then
      wanted[#wanted + 1] = lease
    end
  end
  return life.retire_all(wanted, REVOKED)
end
