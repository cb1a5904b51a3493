return run(function()
  return life.retire_all(ledger.live(ledger.chat(args.tenant, args.conversation_id)), ENDED)
end)
