return run(function() return shown.page(args.wanted, args.after, args.size, args.whole) end, true)
