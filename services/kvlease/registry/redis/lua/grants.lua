-- Grants: as in grants.py. `terms` are what the owner says, its digests and body beside them.

local grants = {}

-- Takes a lease into the books as live, with that generation and life if given, else as the rules say.
function grants.take(session, terms, generation, remaining)
  local turn = terms.ticket_id ~= '' and ledger.turn(terms.ticket_id)
  local stop_reason = turn and turn.stop_reason > 0 and turn.stop_reason or terms.stop_reason
  local ttl = renewals.natural_ttl(terms.kind, stop_reason)
  if remaining then ttl = math.min(remaining, rules.longest_life) end
  local now = ledger.now
  local lease = {
    id = terms.lease_id, kind = terms.kind, tenant = terms.tenant, conversation_id = terms.conversation_id,
    ticket_id = terms.ticket_id, engine_id = terms.engine_id, incarnation = terms.incarnation, blocks = terms.blocks,
    key_id = terms.key_id, stride = terms.stride, tokens = terms.tokens, told = terms.told,
    owner = session.id, seq = ledger.next_seq(), stop_reason = stop_reason, granted_at = now, renewed_at = now,
    used_at = now, expires_at = now + ttl, lives_until = now + rules.longest_life, generation = 0, state = LIVE,
    reason = 0, claims = 0, returned = false,
  }
  write('SET', digests_key(lease), terms.digests, 'PX', KEEP)
  write('SET', body_key(lease), terms.body, 'PX', KEEP)
  if lease.kind == DECODE then
    lease.generation = grants.number(chat_of(lease), generation or 0)
    session.granted_since = session.granted_since + lease.blocks
    ledger.not_due(chat_of(lease), lease.ticket_id)
  end
  life.add(lease)
  if turn then grants.took(turn, lease, terms.report) end
  return lease
end

function grants.took(turn, lease, report)
  if lease.kind == DECODE then
    turn.decode[#turn.decode + 1] = lease.id
  else
    turn.prefill = lease.id
    if report and report ~= '' then turn.report = report end
  end
  ledger.touch('turn', lease.ticket_id)
end

-- Numbers a lease: as wanted, unless a live branch has that number, or with the next.
function grants.number(chat, wanted)
  local known = ledger.branches(chat)
  for _, lease in ipairs(ledger.live(chat)) do
    if lease.generation == wanted then wanted = 0 end
  end
  if wanted == 0 then wanted = known.generation + 1 end
  known.generation = math.max(known.generation, wanted)
  return wanted
end

local function again(session, known, terms)
  local same = known.told == terms.told and same_engine(known, session)
    and call('GET', digests_key(known)) == terms.digests and call('GET', body_key(known)) == terms.body
  if not same then refuse('IdTaken', 'lease', terms.lease_id) end
  life.adopt(known, session)
  return known
end

local function too_many(branches)
  local over, chosen = #branches + 1 - rules.branches, {}
  if over <= 0 then return chosen end
  by_worth(branches, function(lease) return lease.claims > 0 end)
  for i = 1, over do chosen[i] = branches[i] end
  return chosen
end

local function over_budget(session, blocks, going)
  local missing = session_of.retained_blocks(session) + blocks - session.budget
  local chosen = {}
  for _, lease in pairs(going) do
    if lease.owner == session.id then missing = missing - lease.blocks end
  end
  if missing <= 0 then return chosen end
  local rest = {}
  for _, lease in ipairs(ledger.held_by(session)) do
    if not going[lease.id] then rest[#rest + 1] = lease end
  end
  for _, lease in ipairs(least_valuable(rest)) do
    if missing <= 0 then break end
    chosen[#chosen + 1] = lease
    missing = missing - lease.blocks
  end
  if missing > 0 then refuse('BudgetExhausted', blocks, session.budget, rules.heartbeat) end
  return chosen
end

local function room_for(session, terms)
  local superseded, others, going = {}, {}, {}
  for _, lease in ipairs(ledger.live(ledger.chat(terms.tenant, terms.conversation_id))) do
    local into = chain.begins(lease, terms, terms.digests, lease.id == terms.parent_lease_id) and superseded or others
    into[#into + 1] = lease
  end
  local pruned = too_many(others)
  for _, lease in ipairs(superseded) do going[lease.id] = lease end
  for _, lease in ipairs(pruned) do going[lease.id] = lease end
  local revoked = over_budget(session, terms.blocks, going)
  local tenant, own = get(tenants, terms.tenant), 0
  for _, lease in ipairs(revoked) do
    if lease.tenant == terms.tenant then own = own + 1 end
  end
  local left = tenant and tenant.live - #superseded - #pruned - own
  if rules.tenant_leases > 0 and tenant and left >= rules.tenant_leases then
    refuse('TenantLimit', rules.tenant_leases, rules.heartbeat)
  end
  return {superseded = superseded, pruned = pruned, revoked = revoked}
end

-- Decides what must go for the lease; changes nothing.
local function admit(session, terms)
  local buried = get(gone, terms.lease_id)
  if buried then
    if not same_engine(buried, session) then refuse('IdTaken', 'lease', terms.lease_id) end
    refuse('TurnOver', terms.ticket_id)
  end
  local turn = get(turns, terms.ticket_id)
  if terms.kind == DECODE then
    if turn and turn.cancelled then refuse('TurnOver', terms.ticket_id) end
    return room_for(session, terms)
  end
  if turn and not ledger.takes_prefill(turn) then refuse('TurnOver', terms.ticket_id) end
  local before = turn and get(leases, turn.prefill)
  return {superseded = {before}, pruned = {}, revoked = {}}
end

function grants.grant(credential, terms)
  local session = ledger.session(credential)
  if not same_engine(terms, session) then
    refuse('IncarnationMismatch', terms.engine_id, terms.incarnation, session.engine_id, session.incarnation)
  end
  local known = get(leases, terms.lease_id)
  if known then
    known = again(session, known, terms)
    return known.generation, known.state == LIVE and math.max(0, known.expires_at - ledger.now) or 0
  end
  local admitted, room = pcall(admit, session, terms)
  if not admitted then
    if type(room) ~= 'table' or not room.refused or room.refused[1] == 'IdTaken' then error(room) end
    ledger.not_due(ledger.chat(terms.tenant, terms.conversation_id), terms.ticket_id)
    if not ledger.quiet() then
      ledger.bury(terms.lease_id, session)
      error(room)
    end
    terms.report = nil
    life.retire(grants.take(session, terms), REVOKED)
    return 0, 0
  end
  life.retire_all(room.superseded, SUPERSEDED)
  life.retire_all(room.pruned, BRANCH_LIMIT)
  life.retire_all(room.revoked, REVOKED)
  local lease = grants.take(session, terms)
  return lease.generation, lease.expires_at - ledger.now
end
