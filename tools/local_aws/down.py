"""`make down`: ends what `make up` started, and says what that was."""

from tools.local_aws.up import console, down

if __name__ == "__main__":
    console.print(down() or "There was none up.")
