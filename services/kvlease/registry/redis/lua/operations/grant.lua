return run(function()
  local terms = terms_at(2)
  terms.report = ARGV[5]
  local generation, remaining = grants.grant(credential(), terms)
  return exact(generation), exact(remaining)
end)
