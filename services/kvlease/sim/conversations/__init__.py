"""A driver of many conversations through a gateway with simulated engines behind it.

It knows the right answer to every prompt, so it sees wrong KV, and answers given to the wrong client, from outside.
"""
