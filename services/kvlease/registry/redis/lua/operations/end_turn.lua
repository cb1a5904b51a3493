return run(function()
  local report = turning.end_turn(args.ending)
  return report and 1 or 0, report or ''
end)
