return run(function()
  local all = {}
  for i, lease in ipairs(args.leases) do
    all[i] = terms_at(3 * i - 1)
    all[i].generation, all[i].remaining = lease[1], lease[2]
  end
  return announcements.announce(credential(), all)
end)
