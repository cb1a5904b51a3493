#!/usr/bin/env bash
# One comparison on a GPU host, from a checkout of kvlease, without installing it and without a network.
#   usage: gpu.sh STAGE OUT [OPTION...]     options are those of `python -m benchmarks.multiturn compare`
# STAGE holds what the host lacks: a setup.sh that unpacks vLLM, NIXL and wheels (setup.sh STAGE INSTALL_DIR), or wheels
# alone; "-" if Python finds all of it already. OUT gets the run's file, report, pictures and logs.
set -euo pipefail
stage=${1:?usage: gpu.sh STAGE OUT [OPTION...]}; out=${2:?usage: gpu.sh STAGE OUT [OPTION...]}; shift 2
root=$(cd "$(dirname "$0")/../.." && pwd); install=${INSTALL_DIR:-/tmp/kvlease-gpu}; logs=$(mktemp -d)
mkdir -p "$out"; out=$(cd "$out" && pwd)

if [ "$stage" != - ]; then
    setup=$(find "$stage" -name setup.sh -print -quit)
    if [ -n "$setup" ]; then
        bash "$setup" "$stage" "$install"
    else
        find "$stage" -name '*.whl' -print0 |
            xargs -0 python3 -m pip install -q --no-index --no-deps --no-compile --target "$install/site"
    fi
    export PYTHONPATH="$install/site:$install/vllm:$install/nixl${PYTHONPATH:+:$PYTHONPATH}"
fi
export PYTHONPATH="$root:$root/proto:$root/clients:$root/services:$root/connector${PYTHONPATH:+:$PYTHONPATH}"
export VLLM_USE_FLASHINFER_SAMPLER="${VLLM_USE_FLASHINFER_SAMPLER:-0}"  # a trimmed vLLM comes without FlashInfer
export PYTHONUNBUFFERED=1 KVLEASE_CACHE="$install/cache"

trap 'tar -C "$logs" -czf "$out/logs.tar.gz" .' EXIT
cd "$root"
{
    nvidia-smi topo -m || true
    python3 -m benchmarks.multiturn compare --gpus 0/1 --results "$out" --pictures "$out" --logs "$logs" "$@"
} 2>&1 | tee "$out/report.txt"
