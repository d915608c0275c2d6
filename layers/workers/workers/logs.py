"""The functions' logger: JSON lines with RFC 3339 times, at the level of POWERTOOLS_LOG_LEVEL."""

import logging
import os

from aws_lambda_powertools import Logger

LIBRARIES = ("boto3", "botocore", "urllib3")


def function_logger() -> Logger:
    """The logger of the function that POWERTOOLS_SERVICE_NAME names.

    On Lambda, Powertools prefers the level of Lambda's filter to POWERTOOLS_LOG_LEVEL, and Lambda's runtime sets it for
    all other loggers. The filter lets all lines pass, because it would drop those with metrics. So the level is set
    here, for all loggers: docs/decisions/log-level.md.
    """
    logger = Logger(use_rfc3339=True)
    if "AWS_LAMBDA_LOG_LEVEL" in os.environ:
        level = logging.getLevelNamesMapping()[os.environ.get("POWERTOOLS_LOG_LEVEL", "INFO")]
        for name in (None, logger.name):
            logging.getLogger(name).setLevel(level)
        for name in LIBRARIES:  # at INFO, each cold start would say where it found its credentials
            logging.getLogger(name).setLevel(max(level, logging.WARNING))
    return logger
