-- One operation: time passes up to now, it is done or refused, what changed is kept and told.
-- Answered are the refusal's name ("" for none), the time, the boot id, then what the operation gives.

local function credential() return {id = args.session_id, secret = args.secret} end

-- The terms of a lease: what the owner says at ARGV[i], its digests and body after it.
local function terms_at(i)
  local told = cjson.decode(ARGV[i])
  return {
    lease_id = told[1], kind = told[2], tenant = told[3], conversation_id = told[4], ticket_id = told[5],
    parent_lease_id = told[6], engine_id = told[7], incarnation = told[8], blocks = told[9], key_id = told[10],
    stride = told[11], tokens = told[12], stop_reason = told[13], told = ARGV[i], digests = ARGV[i + 1],
    body = ARGV[i + 2],
  }
end

local function told_of(change)
  local event, lease, state, reason = unpack(change)
  local now = ledger.now
  return {
    event, lease.told, lease.seq, lease.generation, lease.stop_reason, state, reason,
    lease.state == LIVE and math.max(0, lease.expires_at - now) or 0, now - lease.granted_at, now - lease.used_at,
    lease.claims,
  }
end

local function tell()
  if next(ledger.touched) then
    local topics = {}
    for topic in pairs(ledger.touched) do topics[#topics + 1] = topic end
    call('PUBLISH', BASE .. ':touched', cjson.encode(topics))
  end
  if #ledger.changes > 0 then
    boot.told = boot.told + 1
    local events = {boot.told}
    for i, change in ipairs(ledger.changes) do events[i + 1] = told_of(change) end
    call('PUBLISH', BASE .. ':events', cjson.encode(events))
  end
end

-- What only `looks` writes nothing, unless something was due.
local function run(operate, looks)
  ledger.advance(math.max(clock(), boot.now))
  local answer = {pcall(operate)}
  local done = table.remove(answer, 1)
  if not done then
    local refused = type(answer[1]) == 'table' and answer[1].refused
    if not refused then error(answer[1]) end
    answer = refused
    for i, part in ipairs(answer) do answer[i] = type(part) == 'number' and exact(part) or part end
  else
    table.insert(answer, 1, '')
  end
  if not looks or ledger.moved then
    tell()
    save()
  end
  table.insert(answer, 2, exact(ledger.now))
  table.insert(answer, 3, boot.id)
  return answer
end
