"""`make down`: stops the local AWS that `make up` or `make demo` left running."""

from tools.local_aws.left_running import down

if __name__ == "__main__":
    print(down() or "No local AWS is running.")
