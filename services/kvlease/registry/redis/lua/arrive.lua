-- Begins a life of the deployment if there is none, if it lived on another server, if the caller knows that it must end
-- (`over` is its boot id), or if its rules are others and the caller is only starting: the last to start decides. The
-- old one's keys are left to expire. Gives the boot id and the time.

local call = redis.call
local BASE = KEYS[1]
local args = cjson.decode(ARGV[1])
local now = clock()
local boot = call('GET', BASE .. ':boot')
boot = boot and cmsgpack.unpack(boot)

if boot and boot.rules ~= RULES and not args.starting then return {'OtherRules'} end
if not boot or boot.run_id ~= args.run_id or boot.rules ~= RULES or boot.id == args.over then
  boot = {
    id = args.new_id, run_id = args.run_id, rules = RULES, now = now, quiet_until = now + rules.claim,
    rejoin_until = now + rules.hold, stood_from = now, stood_to = now, seq = 0, told = 0,
  }
  call('SET', BASE .. ':boot', cmsgpack.pack(boot), 'PX', KEEP)
end
return {'', boot.id, string.format('%.17g', now)}
