return run(function()
  args.beat.load = ARGV[2]
  local number, orders, remaining = sessioning.heartbeat(credential(), args.beat)
  for _, told in ipairs(remaining) do told[2] = exact(told[2]) end
  return exact(number), orders, remaining
end)
