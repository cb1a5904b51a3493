"""The status page at `/ui`: what the gateway and the registry know, drawn in a browser. It changes nothing."""
