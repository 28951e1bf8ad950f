"""A local server that speaks Discord's gateway and REST API, with its limits, and records every call."""
