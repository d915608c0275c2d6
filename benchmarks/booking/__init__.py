"""One small booking program, with conditional_writes and with PynamoDB: tests/integration/test_booking.py runs both.

Each has the same functions: seats are booked and moved while others do the same, a payment is made once, however often
it is asked for, and the latest sighting of each of a passenger's devices is kept, in whatever order they arrive.
"""
