"""`make down`: stops the local AWS that `make up` started."""

from tools.local_aws.up import console, down

if __name__ == "__main__":
    console.print(down() or "No local AWS is running.")
