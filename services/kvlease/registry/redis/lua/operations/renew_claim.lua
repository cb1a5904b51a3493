return run(function() return exact(claiming.renew(credential(), args.claim_id)) end)
