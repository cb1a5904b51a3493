return run(function() return shown.engines(args.model, args.include_lost) end, true)
