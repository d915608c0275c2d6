"""Where an engine on this machine doesn't do as AWS's pages say: by engine and test, with what it does instead."""

LACKING = {"in_process": ("iam", "lambda", "s3"), "dynamodb_local": ("sqs", "events", "iam", "lambda", "s3")}
"""Services that an engine hasn't at all."""

_NO_CONDITIONS = "its simulation knows no condition keys"

DIFFERENCES: dict[str, dict[str, str]] = {
    "ministack": {
        "test_a_batch_of_times_names_those_that_it_did_not_set": "sets any time",
        "test_a_batch_read_names_the_keys_that_it_has_left": "reads any number of bytes",
        "test_a_deleted_message_does_not_come_again": "refuses the receipt of a deleted message",
        "test_a_functions_url_names_who_has_signed_and_refuses_others": "serves no function's URL",
        "test_a_message_has_its_attributes_ten_at_most": "takes any number of attributes",
        "test_a_message_is_hidden_for_twelve_hours_at_most[43201-False]": "hides a message for any time",
        "test_a_role_can_be_held_to_a_functions_url[true-allowed]": _NO_CONDITIONS,
        "test_a_role_can_be_held_to_events_of_a_type[TransactionRefused-allowed]": _NO_CONDITIONS,
        "test_a_role_can_be_held_to_partition_keys_with_a_prefix[expiries#1-implicitDeny]": _NO_CONDITIONS,
        "test_a_role_can_be_held_to_puts_within_transactions[TransactWriteItems-allowed]": _NO_CONDITIONS,
        "test_a_sum_in_an_update_keeps_38_digits": "rounds sums to 28 digits",
        "test_an_event_whose_detail_is_no_json_fails_alone_and_in_its_place": "takes any text",
    },
    "dynamodb_local": {
        "test_a_write_takes_a_unit_for_each_kilobyte_and_two_in_a_transaction": "counts a transaction's units twice"
    },
}
"""By the test's name; with its case in brackets if the others do as the pages say."""
