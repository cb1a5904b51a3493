-- Renewal: as in renewals.py. Outcomes are those of the wire.

local DONE, NOT_FOUND, AT_LIMIT = 1, 2, 3
local renewals = {}

function renewals.natural_ttl(kind, stop_reason)
  if kind == PREFILL then return rules.prefill_ttl end
  return stop_reason == TOOLS_CALLED and rules.tools_ttl or rules.answered_ttl
end

function renewals.extend(lease, ttl)
  if lease.state ~= LIVE then return NOT_FOUND end
  lease.renewed_at, lease.used_at = ledger.now, ledger.now
  local wanted = ledger.now + (ttl or renewals.natural_ttl(lease.kind, lease.stop_reason))
  local longest = math.min(wanted, lease.lives_until)
  if longest > lease.expires_at then
    lease.expires_at = longest
    owner_of(lease).notices[lease.id] = 0
  elseif wanted > lease.expires_at then
    return AT_LIMIT
  end
  ledger.tell(RENEWED, lease)
  return DONE
end

local function concerned(tenant, renewal)
  if renewal.conversation_id ~= '' then return ledger.live(ledger.chat(tenant, renewal.conversation_id)) end
  local lease = get(leases, renewal.lease_id)
  return lease and lease.tenant == tenant and lease.state == LIVE and {lease} or {}
end

-- What became of one renewal: outcome, the longest that remains, of how many leases.
function renewals.renew(tenant, renewal)
  local all = concerned(tenant, renewal)
  if #all == 0 then return {NOT_FOUND, 0, 0} end
  local outcome, longest = AT_LIMIT, 0
  for _, lease in ipairs(all) do
    if renewals.extend(lease, renewal.ttl) == DONE then outcome = DONE end
    longest = math.max(longest, lease.expires_at)
  end
  return {outcome, longest - ledger.now, #all}
end
