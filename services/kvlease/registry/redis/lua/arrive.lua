-- Begins a life of the deployment if there is none, if it lived on another server, if its rules were others and no
-- engine is there, or if the caller knows that it must end (`over` is its boot id). The old one's keys are left to
-- expire. Gives the boot id, or what is in the way.

local call = redis.call
local BASE = KEYS[1]
local args = cjson.decode(ARGV[1])
local now = clock()
local boot = call('GET', BASE .. ':boot')
boot = boot and cmsgpack.unpack(boot)

local function used() return call('EXISTS', BASE .. ':' .. boot.id .. ':i:') == 1 end

if boot and boot.rules ~= args.rules and used() then return {'OtherRules', boot.id} end
if not boot or boot.run_id ~= args.run_id or boot.rules ~= args.rules or boot.id == args.over then
  boot = {
    id = args.new_id, run_id = args.run_id, rules = args.rules, now = now, quiet_until = now + rules.claim,
    rejoin_until = now + rules.hold, stood_from = now, stood_to = now, seq = 0, told = 0,
  }
  call('SET', BASE .. ':boot', cmsgpack.pack(boot), 'PX', KEEP)
end
return {'', boot.id, string.format('%.17g', now)}
