"""Real engines on one machine: vLLM for CPU, a tiny model that is made here, and the processes that run it.

An engine is told where the control plane is, like any engine elsewhere; the demo alone talks to it.
"""
