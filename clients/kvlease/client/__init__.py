"""The client library: route turns, hold conversations while tools run, end them.

`sync.Client` is for threads and `aio.Client` for asyncio, with the same methods; they give the values of `types` and
raise the exceptions of `errors`. A conversation's `chat` runs whole turns (`chat`, over HTTP); `openai` goes beside the
package of that name. `testing` has servers for tests. `engine` speaks protos, for connectors and services.
Nothing of it is imported here, so that each program loads only its part.

It logs to `logging`, as `kvlease.client.*`: it lives in programs of others, whose standard output and error are theirs.
Nothing is printed where nobody set up logging.
"""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())
