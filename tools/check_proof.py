"""Checks the proof of a journal entry, as `teller prove` writes it, against the root of a night. It needs Python alone.

    python check_proof.py PROOF ROOT

PROOF is the file, ROOT the night's root as somebody you trust kept it, or a file of it. What is hashed: docs/seals.md.
Exit status: 0 if the entry is proven, 1 if it isn't, 2 for wrong use.
"""

import base64
import hashlib
import json
import sys
from pathlib import Path

HASH = 43
"""The characters of a hash."""
RANGES = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
"""The ranges of accounts: the characters that the hashes of their ids begin with."""
TEXTS = ("accounts", "ranges", "scheduled_time", "seal_before", "seals")
FIELDS = dict.fromkeys(TEXTS, str) | dict.fromkeys(("index", "size", "version"), int) | {"entry": dict}


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def hash_of(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(bytes(text, "utf-8")).digest()).decode().rstrip("=")


def top(leaf: str, index: int, size: int, siblings: str) -> str:
    """The hash above all leaves of a tree of this size, from the leaf of this index and its siblings on the way up."""
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} isn't in a tree of {size}")
    while size > 1:
        if index ^ 1 < size:
            sibling, siblings = siblings[:HASH], siblings[HASH:]
            leaf = hash_of(f"{sibling},{leaf}" if index % 2 else f"{leaf},{sibling}")
        index, size = index // 2, (size + 1) // 2
    if siblings:
        raise ValueError("there are more hashes than the tree has")
    return leaf


def root_in(text: str) -> tuple[str, dict[str, object]]:
    """The root that the proof leads to, and its entry. Raises KeyError, TypeError and ValueError if it is no proof."""
    proof = json.loads(text)
    if as_json(proof) + "\n" != text:
        raise ValueError("it isn't as the command writes it")
    if not isinstance(proof, dict) or {name: type(value) for name, value in proof.items()} != FIELDS:
        raise ValueError("its fields aren't those of a proof")
    entry = proof["entry"]
    seal = hash_of(proof["seal_before"] + as_json(entry))
    seals = top(seal, entry["account_version"] - 1, proof["version"], proof["seals"])
    account = hash_of(as_json([entry["account_id"], proof["version"], seals]))
    of_range = hash_of(as_json([proof["size"], top(account, proof["index"], proof["size"], proof["accounts"])]))
    ranges = top(of_range, RANGES.index(hash_of(entry["account_id"])[0]), len(RANGES), proof["ranges"])
    return hash_of(as_json([proof["scheduled_time"], ranges])), entry


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    try:
        found, entry = root_in(Path(sys.argv[1]).read_bytes().decode())
        published = Path(sys.argv[2])
        root = json.loads(published.read_bytes())["root"] if published.is_file() else sys.argv[2]
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        print(f"not proven: {str(error)!a}")
        return 1
    if found != root:
        print(f"not proven: the root would be {found}")
        return 1
    print("proven:", ", ".join(f"{name} {value!a}" for name, value in entry.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
