return run(function()
  local chat = ledger.chat(args.tenant, args.conversation_id)
  local known = get(conversations, chat)
  for ticket_id in pairs(known and known.due or {}) do
    ledger.turn(ticket_id).cancelled = true
    ledger.not_due(chat, ticket_id)
  end
  return life.retire_all(ledger.live(chat), ENDED)
end)
