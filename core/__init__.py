"""The core: text and history in, an answer out. It knows no platform and reads no environment."""
