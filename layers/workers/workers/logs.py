"""The functions' logger: JSON lines with RFC 3339 times, at the level of POWERTOOLS_LOG_LEVEL."""

import logging
import os

from aws_lambda_powertools import Logger

LIBRARIES = ("boto3", "botocore", "urllib3")


def function_logger() -> Logger:
    """The logger of the function that POWERTOOLS_SERVICE_NAME names.

    Lambda's filter lets all lines pass: at WARN it would drop those without a level, such as metrics, and those without
    an RFC 3339 time; and Powertools would take its level instead of POWERTOOLS_LOG_LEVEL. At TRACE, Powertools' logger
    has no level of its own. It follows the root logger, as all others do, and Lambda's runtime has set that to DEBUG.
    So the root logger's level is set here.
    https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html
    """
    logger = Logger(use_rfc3339=True)
    if "AWS_LAMBDA_LOG_LEVEL" in os.environ:
        level = logging.getLevelNamesMapping()[os.environ.get("POWERTOOLS_LOG_LEVEL", "INFO")]
        logging.getLogger().setLevel(level)
        for name in LIBRARIES:  # at INFO, each cold start would say where it found its credentials
            logging.getLogger(name).setLevel(max(level, logging.WARNING))
    return logger
