return run(function() return shown.existing(args.wanted), exact(boot.told) end, true)
