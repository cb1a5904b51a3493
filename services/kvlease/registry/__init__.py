"""The registry: engine sessions, leases on their KV blocks, claims of readers.

The clock model. Instants are seconds of one monotonic clock; they are handed to the core (`Ledger.advance`) and never
leave this process: the wire and the `Store` interface speak durations, and say from when they count. No clock is
compared with another; only their rates must be nearly the same.

* Whoever **frees** counts late, whoever **reads** counts early. An owner keeps its blocks for `hold` after it
  *received* a heartbeat answer. The registry counts the same `hold` from when it *sent* that answer, less a margin,
  and gives no claim beyond. A reader counts its claim from when it *sent* the request, and is told a little less than
  the registry keeps (`rules.DRIFT`): on a fast network nothing else makes up for its clock being slower.
* A lease is over when `now >= expires_at`. Everything that time brings about happens in `Ledger.advance`, in order,
  before any operation sees the state: no answer depends on how often a background task runs. A lease that is over
  stays over.
* A registry that has just started may have forgotten claims of its life before. Until one claim length has passed it
  tells no owner to free anything (`Ledger.quiet_until`).

Layers: values and rules (`lease`, `chain`, `session`, `turn`, `rules`, `value`), the state and its moves (`ledger`),
one module per group of operations on it, `store` (the seam: one method per RPC) with `memory` behind it, and the gRPC
side (`parts`, `requests`, `answers`, `servicer`, `statuses`), put together in `service`.
"""
