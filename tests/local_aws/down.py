"""`make down`: ends what `make up` started."""

from rich import print as say

from tests.local_aws.up import STATE, down

if __name__ == "__main__":
    say("The local AWS is down." if STATE.exists() else "There was none up.")
    down()
