"""Local servers that speak the protocols of the outside world, on real sockets."""
