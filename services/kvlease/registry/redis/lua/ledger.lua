-- The state at the instant `ledger.now`, and what time brings about: as in ledger.py and timers.py.

local LIVE, RETIRING, FREEING, FREED = 1, 2, 3, 4
local DECODE, PREFILL = 1, 2
local EXPIRED, SUPERSEDED, ENDED, REVOKED, RELEASED, OWNER_LOST, BRANCH_LIMIT, READ = 1, 2, 3, 4, 5, 6, 7, 8
local EXISTS, GRANTED, RENEWED, CLAIMED, CLAIM_ENDED, RETIRED, GONE = 1, 3, 4, 5, 6, 7, 8
local TOOLS_CALLED = 2

local sessions, leases, claims, conversations = book('s'), book('l'), book('c'), book('k')
local turns, tenants, gone, engines, learned = book('t'), book('n'), book('g'), book('e'), book('v')

local ledger = {now = boot.now, changes = {}, touched = {}, moved = false}
local acts, armed = {}, {}

-- A refusal, with what its exception is made from.
local function refuse(...) error({refused = {...}}) end

local function held(session_id) return list('m', session_id) end
local function roll(tenant) return list('r', tenant) end
local function timetable() return list('z', '') end

-- Every member has one time: a later one that is set takes the earlier one's place.
function ledger.at(when, act, key)
  local member = act .. ' ' .. key
  armed[member] = when
  enter(timetable(), member, when)
end

local function run_timer(when, member)
  local act, key = string.match(member, '^(%S+) (.*)$')
  armed[member] = nil
  leave(timetable(), member)
  ledger.now, ledger.moved = math.max(ledger.now, when), true
  acts[act](key)
end

local function next_armed(to)
  local first, member
  for name, when in pairs(armed) do
    if when <= to and (not first or when < first or (when == first and name < member)) then first, member = when, name end
  end
  return first, member
end

function ledger.advance(to)
  local due = call('ZRANGE', timetable().at, '-inf', to, 'BYSCORE', 'WITHSCORES')
  local i = 1
  while true do
    local when, member = next_armed(to)
    local stored = due[i]
    if stored and (not when or tonumber(due[i + 1]) <= when) then
      if not armed[stored] then run_timer(tonumber(due[i + 1]), stored) end
      i = i + 2
    elseif when then
      run_timer(when, member)
    else
      break
    end
  end
  ledger.now = math.max(ledger.now, to)
  boot.now = ledger.now
end

function ledger.quiet() return ledger.now < boot.quiet_until end

function ledger.next_seq()
  boot.seq = boot.seq + 1
  return boot.seq
end

function ledger.tell(event, lease)
  ledger.changes[#ledger.changes + 1] = {event, lease, lease.state, lease.reason}
end

function ledger.touch(kind, key) ledger.touched[kind .. ' ' .. key] = true end

function ledger.promised_until(session) return session.promised_from + rules.hold - rules.margin end

function ledger.any_session(credential)
  local session = get(sessions, credential.id)
  if not session then refuse('SessionNotFound') end
  if session.secret ~= credential.secret then refuse('SecretWrong') end
  return session
end

function ledger.chat(tenant, conversation_id) return #tenant .. ' ' .. tenant .. conversation_id end

function ledger.branches(chat)
  local known = get(conversations, chat)
  if not known then
    known = {generation = 0, leases = {}, due = {}}
    set(conversations, chat, known)
  end
  known.forget_at = ledger.now + rules.tombstone
  ledger.at(known.forget_at, 'forget_conversation', chat)
  return known
end

-- The branches: DECODE leases that are live, by order of arrival.
function ledger.live(chat)
  local found = {}
  for _, lease in ipairs(ledger.of(chat)) do
    if lease.kind == DECODE and lease.state == LIVE then found[#found + 1] = lease end
  end
  return found
end

function ledger.of(chat)
  local known, ids, found = get(conversations, chat), {}, {}
  if not known then return found end
  for id in pairs(known.leases) do ids[#ids + 1] = id end
  fetch(leases, ids)
  for i, id in ipairs(ids) do found[i] = get(leases, id) end
  table.sort(found, function(a, b) return a.seq < b.seq end)
  return found
end

function ledger.turn(ticket_id)
  local known = get(turns, ticket_id)
  if not known then
    known = {completed = false, cancelled = false, prefill_failed = false, stop_reason = 0, prefill = '', decode = {}}
    set(turns, ticket_id, known)
    ledger.forget_turn_in(ticket_id, rules.turn_memory)
  end
  return known
end

function ledger.takes_prefill(turn) return not (turn.completed or turn.cancelled or turn.prefill_failed) end

function ledger.forget_turn_in(ticket_id, seconds)
  get(turns, ticket_id).forget_at = ledger.now + seconds
  ledger.at(ledger.now + seconds, 'forget_turn', ticket_id)
end

function ledger.not_due(chat, ticket_id)
  local known = get(conversations, chat)
  if known and known.due[ticket_id] then
    known.due[ticket_id] = nil
    ledger.touch('conversation', chat)
  end
end

function ledger.bury(lease_id, owner)
  local until_ = ledger.now + rules.tombstone
  set(gone, lease_id, {engine_id = owner.engine_id, incarnation = owner.incarnation, until_ = until_})
  ledger.at(until_, 'forget_gone', lease_id)
end

function acts.forget_conversation(chat)
  local known = get(conversations, chat)
  if known and next(known.leases) == nil and known.forget_at <= ledger.now then set(conversations, chat, nil) end
end

function acts.forget_turn(ticket_id)
  local known = get(turns, ticket_id)
  if known and known.forget_at <= ledger.now then set(turns, ticket_id, nil) end
end

function acts.forget_gone(lease_id)
  local known = get(gone, lease_id)
  if known and known.until_ <= ledger.now then set(gone, lease_id, nil) end
end

local function same_engine(a, b) return a.engine_id == b.engine_id and a.incarnation == b.incarnation end
