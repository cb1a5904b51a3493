-- Claims: as in claims.py.

local claiming = {}

local function longest(lease)
  return math.min(ledger.now + rules.claim, ledger.promised_until(owner_of(lease)))
end

-- Those whose owners' promise reaches far enough for a useful claim.
local function promised(all)
  local found, least = {}, ledger.now + rules.least_claim
  for _, lease in ipairs(all) do
    if owner_of(lease).open and longest(lease) >= least then found[#found + 1] = lease end
  end
  if #found == 0 then refuse('PromiseTooShort', owner_of(all[1]).engine_id) end
  return found
end

local function due_until(known)
  local last
  for ticket_id, until_ in pairs(known.due) do
    if until_ <= ledger.now then
      known.due[ticket_id] = nil
    elseif not last or until_ > last then
      last = until_
    end
  end
  return last
end

local function of_branch(target, waits)
  local chat = ledger.chat(target.tenant, target.conversation_id)
  local known = get(conversations, chat)
  local due = known and waits and due_until(known)
  if due then return nil, nil, due end
  local claimable, matching, tokens = {}, {}, {}
  for _, lease in ipairs(ledger.live(chat)) do
    if owner_of(lease).open then claimable[#claimable + 1] = lease end
  end
  if #claimable == 0 then refuse('NoLease', target.conversation_id) end
  for _, lease in ipairs(claimable) do
    tokens[lease.id] = chain.matched(lease, target, target.digests)
    if tokens[lease.id] > 0 then matching[#matching + 1] = lease end
  end
  if #matching == 0 then refuse('NoMatch', target.conversation_id) end
  local best
  for _, lease in ipairs(promised(matching)) do
    local more = best and tokens[lease.id] - tokens[best.id]
    if not best or more > 0 or (more == 0 and lease.generation > best.generation) then best = lease end
  end
  if not best.returned then
    best.returned = true
    value.returned(best.stop_reason, ledger.now - best.granted_at)
  end
  return best, tokens[best.id]
end

-- Whether that start of an engine has a successor, or was silent for `hold`.
local function lost(engine)
  if not engine then return false end
  local known = get(engines, engine.engine_id)
  if not known then return ledger.now >= boot.rejoin_until end
  return not same_engine(get(sessions, known[#known]), engine)
end

local function of_prefill(target, waits)
  local turn = get(turns, target.ticket_id)
  local lease = turn and get(leases, turn.prefill)
  local live = lease and lease.state == LIVE
  if live and owner_of(lease).open then return promised({lease})[1], 0 end
  local over = turn and ((turn.prefill ~= '' and not live) or not ledger.takes_prefill(turn))
  if over or lost(target.engine) then refuse('PrefillFailed', target.ticket_id) end
  if not waits then refuse('PrefillPending', target.ticket_id) end
  return nil, nil, ledger.now + rules.claim
end

local function of_lease(target)
  local lease = get(leases, target.lease_id)
  if not lease or lease.state ~= LIVE then refuse('LeaseNotFound', target.lease_id) end
  return promised({lease})[1], 0
end

local function extend(known, lease)
  known.ends_at = math.max(known.ends_at, longest(lease))
  lease.used_at = ledger.now
  write('PEXPIRE', body_key(lease), KEEP)
  write('PEXPIRE', digests_key(lease), KEEP)
  return known.ends_at - ledger.now
end

local function count_claim(lease, change)
  life.tally(lease, -1)
  lease.claims = lease.claims + change
  life.tally(lease, 1)
end

-- The lease that a claim is on; nil once that is freed.
local function lease_of(claim)
  local lease = get(leases, claim.lease_id)
  return lease and lease.seq == claim.seq and lease or nil
end

local function drop(claim)
  set(claims, claim.id, nil)
  local lease = lease_of(claim)
  if not lease then return end
  count_claim(lease, -1)
  ledger.tell(CLAIM_ENDED, lease)
  life.settle(lease)
end

-- Gives how long, on which lease, with how many tokens; or nil and until when to wait.
function claiming.claim(credential, claim_id, target, waits)
  local reader = ledger.session(credential)
  local known = get(claims, claim_id)
  if known then
    if not same_engine(known, reader) or known.target ~= target.asked then refuse('IdTaken', 'claim', claim_id) end
    local lease = lease_of(known)
    if lease then return extend(known, lease), lease, known.matched end
    set(claims, claim_id, nil)
  end
  local find = (target.lease_id and of_lease) or (target.ticket_id and of_prefill) or of_branch
  local lease, matched, until_ = find(target, waits)
  if not lease then return nil, until_ end
  local made = {
    id = claim_id, engine_id = reader.engine_id, incarnation = reader.incarnation, target = target.asked,
    lease_id = lease.id, seq = lease.seq, ends_at = longest(lease), matched = matched,
  }
  set(claims, claim_id, made)
  lease.used_at = ledger.now
  count_claim(lease, 1)
  ledger.at(made.ends_at, 'lapse', claim_id)
  ledger.tell(CLAIMED, lease)
  return made.ends_at - ledger.now, lease, matched
end

function claiming.renew(credential, claim_id)
  local reader = ledger.session(credential)
  local known = get(claims, claim_id)
  local lease = known and same_engine(known, reader) and lease_of(known)
  if not lease then refuse('ClaimLost', claim_id) end
  return extend(known, lease)
end

function claiming.finish(credential, claim_id)
  local reader = ledger.session(credential)
  local known = get(claims, claim_id)
  if not known or not same_engine(known, reader) then return nil end
  local lease = lease_of(known)
  drop(known)
  if lease and lease.kind == PREFILL then life.retire(lease, READ) end
  return known.lease_id
end

function acts.lapse(claim_id)
  local known = get(claims, claim_id)
  if not known then return end
  if known.ends_at > ledger.now then ledger.at(known.ends_at, 'lapse', claim_id) else drop(known) end
end
