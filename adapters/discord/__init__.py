"""Parts of the Discord gateway: reading, deciding, writing."""
