"""Trains the adapters of the embedded model. Needs the extra `training`; see training/MODEL_CARD.md."""
