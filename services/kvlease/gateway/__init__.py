"""The gateway: an OpenAI-compatible HTTP front over prefill and decode engines.

A turn is one HTTP request: routed by the router, sent to prefill and to decode with one ticket, answered by decode.
The answer's bytes pass through as they come; only its last events wait for the ticket to be completed.
`http` is the transport and knows nothing of OpenAI, tickets or leases.
"""
