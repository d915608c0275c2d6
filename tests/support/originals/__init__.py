"""The programs that the library's examples replace: the algorithms of five articles, in Python on boto3's resources.

Each does what its article's code does, mistakes included; the words are ours. The table comes as an argument, so that a
test can step in between two requests.
"""
