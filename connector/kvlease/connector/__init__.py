"""The connector between vLLM and kvlease.

Imports nothing here, so that its parts that know no vLLM are used, and tested, without it. vLLM loads
`kvlease.connector.nixl` (`kv_connector_module_path`).
"""
