"""Threadwise on Slack: what is said there, and how answers look there."""
