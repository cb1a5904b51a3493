return run(function() sessioning.drain(args.engine_id, args.undo) end)
