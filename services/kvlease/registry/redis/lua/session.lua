-- A session's numbers and counts: as in session.py. Instants of answers are kept as number, time, number, time, ...

local REMEMBERED = 1024
local session_of = {}

function session_of.acknowledge(session, number)
  if number > session.number then refuse('NumberUnknown', number) end
  if number <= session.acknowledged then return end
  session.acknowledged = number
  local sent, kept = session.sent, {}
  for i = 1, #sent, 2 do
    if sent[i] <= number then
      session.promised_from = sent[i + 1]
    else
      kept[#kept + 1], kept[#kept + 2] = sent[i], sent[i + 1]
    end
  end
  session.sent = kept
  for lease_id, first in pairs(session.notices) do
    if first > 0 and first <= number then session.notices[lease_id] = nil end
  end
end

function session_of.answer(session)
  session.number = session.number + 1
  local sent = session.sent
  if #sent >= 2 * REMEMBERED then
    table.remove(sent, 1)
    table.remove(sent, 1)
  end
  sent[#sent + 1], sent[#sent + 2] = session.number, ledger.now
  for _, order in pairs(session.orders) do
    if order.number == 0 then order.number = session.number end
  end
  for lease_id, first in pairs(session.notices) do
    if first == 0 then session.notices[lease_id] = session.number end
  end
  return session.number
end

function session_of.receive_orders(session)
  local new = {}
  for lease_id, order in pairs(session.orders) do
    if order.number > 0 and not order.received and order.number <= session.acknowledged then
      order.received = true
      new[#new + 1] = lease_id
    end
  end
  return new
end

function session_of.order(session, lease_id, reason)
  session.orders[lease_id] = {reason = reason, number = 0, received = false}
end

function session_of.retained_blocks(session)
  if session.reported_blocks == 0 then return session.kept_blocks end
  return math.min(session.kept_blocks, session.reported_blocks + session.granted_since)
end

function session_of.tally(session, lease, sign)
  if lease.state == FREED then return end
  local blocks = sign * lease.blocks
  session.leased_blocks = session.leased_blocks + blocks
  if lease.claims > 0 then session.claimed_blocks = session.claimed_blocks + blocks end
  if lease.state == FREEING then session.freeing_blocks = session.freeing_blocks + blocks end
  if lease.kind == DECODE and lease.state <= RETIRING then session.kept_blocks = session.kept_blocks + blocks end
  if lease.kind == DECODE and lease.state == LIVE then session.live_leases = session.live_leases + sign end
end

-- The caller's open session; who knows its secret has received answer 0.
function ledger.session(credential)
  local session = ledger.any_session(credential)
  if not session.open then refuse('SessionNotFound') end
  session_of.acknowledge(session, 0)
  return session
end

function ledger.held_by(session)
  local ids, found = members(held(session.id)), {}
  fetch(leases, ids)
  for i, id in ipairs(ids) do found[i] = get(leases, id) end
  return found
end
