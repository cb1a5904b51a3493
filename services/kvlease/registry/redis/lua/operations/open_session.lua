return run(function()
  args.engine.profile = ARGV[2]
  return exact(sessioning.open(args.engine).budget)
end)
