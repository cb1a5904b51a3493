"""Real engines on one machine: vLLM for CPU, a tiny model that is made here, and the processes that run it.

Nothing here knows the control plane: an engine is told where it is, like any engine elsewhere.
"""
