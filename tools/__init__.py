"""Developers' tools: the local AWS and the demo."""
