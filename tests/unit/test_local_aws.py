"""Starting, using and stopping the local AWS: what a terminal shows if something is wrong."""

import gc
import weakref

from tools.local_aws.functions import load_function
from tools.local_aws.server import Endpoint


def test_a_function_that_is_loaded_in_this_process_is_freed_after_its_use() -> None:
    variables = dict.fromkeys(["ACCOUNTS_TABLE", "JOURNAL_TABLE", "LOCKS_TABLE"], "x")
    frozen = gc.get_freeze_count()
    function = load_function("reconcile_accounts", Endpoint("http://127.0.0.1:9"), variables)
    client = weakref.ref(function.client)
    del function
    gc.collect()
    assert client() is None
    assert gc.get_freeze_count() == frozen
