"""Trains the adapters of the embedded model. Needs the extra `training`; see bot/lora/README.md."""
