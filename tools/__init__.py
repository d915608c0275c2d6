"""What developers run: the local AWS, and the demo on it."""
