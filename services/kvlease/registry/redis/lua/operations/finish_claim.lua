return run(function() return claiming.finish(credential(), args.claim_id) or '' end)
