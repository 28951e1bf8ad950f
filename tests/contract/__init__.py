"""One behaviour, the same on Discord, on Slack and in a terminal: the real clients, dispatcher, store and model client,
local servers in place of the platforms and of the model.
"""
