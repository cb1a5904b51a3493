"""The router: chooses prefill and decode for a turn, and hands out tickets.

A choice is made in three steps, each a small pure piece: filters say which engines may serve, scorers say how well
(0 to 1 each, weighted), a picker takes the best one. What is asked of the registry for a turn is one call, bounded in
time; everything else is known beforehand or told by the callers.

Time. Instants are monotonic, of this process, and never leave it. A ticket's life counts from its issue here, or from
when it was first seen here if another router issued it.
"""
