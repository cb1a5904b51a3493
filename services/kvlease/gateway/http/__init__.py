"""HTTP/1.1 on asyncio protocols: a server, and pooled connections to engines. It knows nothing of what it carries."""
