"""The store in Redis or Valkey, shared by any number of registries.

One script per operation (`lua/operations`), over the rules of leasing (`lua/*.lua`), which are those of the Python
modules of the same names: the same contract of tests holds for both, and a test lets both do the same at random.

* **Time** is the server's (`TIME` inside the scripts). It is compared with a clock of this process for one question
  alone: whether it was set. If it was, what it had measured is not to be trusted (`reckoning`).
* **Lives.** All state belongs to a life of the deployment, which has a boot id and keys of its own. Another life
  begins, empty and quiet for one claim length, when what is stored may not be all that was answered: nothing is there,
  the server is another one than before (restart, failover), its clock was set, or nobody has watched it. Engines then
  announce what they hold. What a life before has left expires by itself; every key does.
* **Keys** begin with the prefix in braces, one hash slot in a cluster. Scripts read first and write last.
* **Waiting calls and watches** hear of changes by publish/subscribe; one that may have missed something asks again,
  or ends with an error.

A server that is cut off from its own successor, yet not from a registry, could go on giving claims: let masters stop
writing without replicas (`min-replicas-to-write`, or a cluster).
"""
