-- Begins a life of the deployment if what is there may not be all that was answered, or may be counted by another clock:
-- nothing is there, it lived on another server, the clock was set back, the caller knows of a reason (`over` is the boot
-- id of what must end), or it is only starting and nobody has watched the clock lately. A caller that starts with other
-- rules begins one too: the last to start decides. The old life's keys are left to expire. Gives the boot id.
--
-- Where a life goes on after a time without any registry, engines are silent because nobody could hear them.

local call = redis.call
local BASE = KEYS[1]
local args = cjson.decode(ARGV[1])
local now = clock()
local boot = call('GET', BASE .. ':boot')
boot = boot and cmsgpack.unpack(boot)

local UNHEARD, UNWATCHED = 1, 3 -- seconds; every registry calls once a second at least
local SLACK = 0.02 -- seconds, as in reckoning.py

if boot and boot.rules ~= RULES and not args.starting then return {'OtherRules'} end
local unlike = boot and (boot.run_id ~= args.run_id or boot.rules ~= RULES or boot.id == args.over)
local untimed = boot and (now < boot.now - SLACK or (args.starting and now > boot.now + UNWATCHED))
if not boot or unlike or untimed then
  boot = {
    id = args.new_id, run_id = args.run_id, rules = RULES, now = now, quiet_until = now + rules.claim,
    rejoin_until = now + rules.hold, stood_from = now, stood_to = now, seq = 0, told = 0,
  }
  call('SET', BASE .. ':boot', cmsgpack.pack(boot), 'PX', KEEP)
elseif args.starting and now > boot.now + UNHEARD then
  boot.stood_from, boot.stood_to = boot.now, now
  call('SET', BASE .. ':boot', cmsgpack.pack(boot), 'PX', KEEP)
end
return {'', boot.id}
