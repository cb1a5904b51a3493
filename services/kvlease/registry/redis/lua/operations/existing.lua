return run(function()
  local found, next_after = shown.page(args.wanted, args.after, args.size, false, true)
  return found, next_after, exact(boot.told)
end, true)
