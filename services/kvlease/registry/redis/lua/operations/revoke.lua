return run(function() return endings.revoke(args.selection) end)
