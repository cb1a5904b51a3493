return run(function()
  local located = {}
  for i, asked in ipairs(args.conversations) do
    located[i] = {}
    for j, lease in ipairs(ledger.live(ledger.chat(asked.tenant, asked.conversation_id))) do
      located[i][j] = {lease.engine_id, lease.incarnation, exact(lease.tokens), exact(lease.generation)}
    end
  end
  return located
end, true)
