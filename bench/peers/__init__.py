"""One conversation asked of Threadwise, LangChain and LlamaIndex in turn, on one server. Run by `make bench-peers`."""
