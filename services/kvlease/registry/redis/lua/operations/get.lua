return run(function()
  local lease = get(leases, args.lease_id)
  if not lease or lease.tenant ~= args.tenant then refuse('LeaseNotFound', args.lease_id) end
  return shown.lease(lease, true)
end, true)
