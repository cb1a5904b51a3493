"""The engine simulator: the connector's own session, lease and claim code in front of a pretended engine.

No model runs. KV blocks hold *tags*, digests of the tokens whose KV they would hold, and a read from another engine
copies tags at the end of the time that the transfer takes. An answer is made from the prompt if the tags of its blocks
are right, and is a wrong one, and counted, if a block was freed or reused before it was read: what would be silent with
real KV is seen here. `answer` tells a driver what the right answer is, so that it can check end to end.
"""
