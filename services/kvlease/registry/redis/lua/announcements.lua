-- Announcements: as in announcements.py.

local announcements = {}

local function of_known(session, lease)
  if not same_engine(lease, session) then return {0, 0} end
  life.adopt(lease, session)
  if lease.state == FREEING then
    life.free(lease)
    return {0, 0}
  end
  return {1, lease.generation}
end

-- What became of one: whether it is kept, and its generation.
local function announce(session, terms)
  local known = get(leases, terms.lease_id)
  if known then return of_known(session, known) end
  local turn = get(turns, terms.ticket_id)
  local late = terms.kind == PREFILL and turn and not ledger.takes_prefill(turn)
  local over = terms.remaining <= 0 or get(gone, terms.lease_id) or late
  if over and not ledger.quiet() then return {0, 0} end
  local lease = grants.take(session, terms, terms.generation, terms.remaining)
  if over then life.retire(lease, EXPIRED) end
  return {1, lease.generation}
end

function announcements.announce(credential, all)
  local session, results = ledger.session(credential), {}
  for _, terms in ipairs(all) do
    if not same_engine(terms, session) then
      refuse('IncarnationMismatch', terms.engine_id, terms.incarnation, session.engine_id, session.incarnation)
    end
  end
  for i, terms in ipairs(all) do results[i] = announce(session, terms) end
  return results
end
