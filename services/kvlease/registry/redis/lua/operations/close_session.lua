return run(function() sessioning.close(credential()) end)
