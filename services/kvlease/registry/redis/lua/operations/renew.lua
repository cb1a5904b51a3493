return run(function()
  local results = {}
  for i, renewal in ipairs(args.renewals) do
    local result = renewals.renew(args.tenant, renewal)
    results[i] = {result[1], exact(result[2]), result[3]}
  end
  return results
end)
