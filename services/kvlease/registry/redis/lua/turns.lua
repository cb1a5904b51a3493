-- Ends of turns: as in turns.py.

local COMPLETED, PREFILL_FAILED, CANCELLED, NOTHING_KEPT = 1, 2, 3, 4
local turning = {}

local function mark_due(ending, chat)
  for _, session_id in ipairs(get(engines, ending.decode.engine_id) or {}) do
    local session = get(sessions, session_id)
    if session.open and same_engine(session, ending.decode) then
      ledger.branches(chat).due[ending.ticket_id] = ledger.now + rules.grant_due
      return
    end
  end
end

local function complete(turn, ending, chat)
  if turn.completed then return end
  turn.completed = true
  if ending.stop_reason > 0 then turn.stop_reason = ending.stop_reason end
  for _, lease_id in ipairs(turn.decode) do
    local lease = get(leases, lease_id)
    if lease then
      if turn.stop_reason > 0 then lease.stop_reason = turn.stop_reason end
      renewals.extend(lease)
    end
  end
  local settled = #turn.decode > 0 or turn.nothing_kept
  if ending.conversation_id ~= '' and ending.decode and not settled then mark_due(ending, chat) end
end

-- Gives how prefill came by its KV, if that was told.
function turning.end_turn(ending)
  local turn, chat = ledger.turn(ending.ticket_id), ledger.chat(ending.tenant, ending.conversation_id)
  if ending.outcome == NOTHING_KEPT then
    turn.nothing_kept = true
    ledger.not_due(chat, ending.ticket_id)
    ledger.touch('turn', ending.ticket_id)
    return turn.report
  end
  if ending.outcome == COMPLETED then
    complete(turn, ending, chat)
  elseif ending.outcome == PREFILL_FAILED then
    turn.prefill_failed = true
  else
    turn.cancelled = true
    ledger.not_due(chat, ending.ticket_id)
  end
  if ending.outcome ~= PREFILL_FAILED then ledger.forget_turn_in(ending.ticket_id, rules.tombstone) end
  ledger.touch('turn', ending.ticket_id)
  local prefill = get(leases, turn.prefill)
  if prefill then life.retire(prefill, turn.completed and READ or ENDED) end
  return turn.report
end
