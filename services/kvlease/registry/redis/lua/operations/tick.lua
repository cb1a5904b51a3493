-- Lets time pass when nobody calls; gives how long until something is due, at most `longest`.
return run(function()
  if args.stood_still > 0 then
    boot.stood_from, boot.stood_to = ledger.now - args.stood_still, ledger.now
  end
  local due = call('ZRANGE', timetable().at, 0, 0, 'WITHSCORES')
  return exact(math.min(args.longest, due[2] and math.max(0, tonumber(due[2]) - ledger.now) or args.longest))
end)
