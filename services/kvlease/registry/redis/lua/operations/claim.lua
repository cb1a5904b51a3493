return run(function()
  local target = args.target
  target.digests = ARGV[2]
  local ttl, lease, matched = claiming.claim(credential(), args.claim_id, target, args.waits)
  if not ttl then return exact(lease - ledger.now) end
  return exact(ttl), shown.lease(lease, true), exact(matched)
end)
