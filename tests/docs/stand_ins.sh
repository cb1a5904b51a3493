# What stands in for commands in the code blocks of pages: what takes minutes or runs until Ctrl-C is checked, not run.
set -euo pipefail

kvlease() {
    case "$1" in
    up | watch | top | sim-engine) "$PYTHON" -m tests.docs.checked kvlease "$@" ;;
    *) "$PYTHON" -m kvlease.cli "$@" ;;
    esac
}
make() { "$PYTHON" -m tests.docs.checked make "$@"; }
pip() { "$PYTHON" -m tests.docs.checked pip "$@"; }
vllm() { "$PYTHON" -m tests.docs.checked vllm "$@"; }
