# What commands in the blocks of pages do under test. Most do what they always do. What serves goes to the background once
# it is ready, what runs until Ctrl-C gets that, what takes long does less, and what this machine is not for is checked.
set -Eeuo pipefail
trap 'echo "failed: $BLOCK: $BASH_COMMAND" >&2' ERR
BLOCK=before

serving=0
serve() { # COMMAND ...
    local log="server-$((++serving)).log"
    "$(type -P "$1")" "${@:2}" >"$log" 2>&1 &
    until grep -Eqs 'ready (http|registry|router|gateway)|waiting for engines' "$log"; do
        kill -0 $! || { cat "$log" && return 1; }
        sleep 0.1
    done
}

until_ctrl_c() { # COMMAND ...
    local code=0
    timeout --signal=INT 2 "$@" || code=$?
    ((code == 124)) # it ran until then
}

checked() { # COMMAND ...: see checked.py
    { printf '%s\0' "$BLOCK" $# "$@" && env --null; } >"$(mktemp checks/XXXXXX)"
}

up= # the process of the last `kvlease up`
kvlease() {
    case "$*" in
    "up --engines cpu"*) checked kvlease "$@" ;; # README's is run in tests/local/test_real.py
    up*)
        if [ "$up" ]; then kill "$up" && wait "$up"; fi # one reader, one terminal
        serve kvlease "$@" --registry "$HERE:7440" --router "$HERE:7441" --gateway "$HERE:8440" --wait 2s --logs logs
        up=$!
        ;;
    sim-engine*) serve kvlease "$@" --host "$HERE" ;;
    watch*) until_ctrl_c kvlease "$@" ;;
    bench*) command kvlease "$@" --results results ;;
    *) command kvlease "$@" ;;
    esac
}
kvlease-registry() { serve kvlease-registry "$@"; }
kvlease-router() { serve kvlease-router "$@"; }
kvlease-gateway() { serve kvlease-gateway "$@"; }

curl() { # 503 until engines are known
    case " $* " in
    *" --fail "*) command curl "$@" ;; # the page asks again by itself
    *) command curl --fail-with-body --retry 60 --retry-connrefused --retry-delay 1 "$@" ;;
    esac
}
python() {
    case "$*" in
    "-m kvlease.sim.conversations "*)
        curl -s "http://$HERE:8440/health"
        "$PYTHON" "$@" --conversations 6 --concurrent 3 --turns 3 --think 100ms
        ;;
    *) checked python "$@" ;; # minutes, and GPUs
    esac
}
benchmarks/multiturn/gpu.sh() { checked python -m benchmarks.multiturn compare "${@:3}"; }

make() { checked make "$@"; }                     # an hour
pip() { checked pip "$@"; }                       # an environment of one's own
vllm() { checked vllm "$@"; }                     # another machine
kubectl() { checked kubectl "$PWD" "$@"; }        # a cluster
docker-compose() {                                # run in tests/deploy/test_compose.py; here, what it starts
    checked docker-compose "$@"
    [ "$*" != up ] || {
        kvlease up
        kvlease sim-engine --role prefill --port 8100
        kvlease sim-engine --role decode --port 8200
    }
}
