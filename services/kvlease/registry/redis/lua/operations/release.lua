return run(function() return endings.release(credential(), args.lease_ids) end)
