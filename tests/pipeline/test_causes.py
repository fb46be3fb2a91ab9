"""What a person reads of a failure of Spark's: one short sentence out of pages of calls."""

from __future__ import annotations

import pytest

from millstream.pipeline.causes import first_cause

CALLS = """
\tat org.apache.spark.scheduler.Task.run(Task.scala:147)
\tat java.base/java.lang.Thread.run(Thread.java:840)
\t... 17 more
"""
WORKER = """org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times
Traceback (most recent call last):
  File "/x/worker.py", line 1247, in main
    process()
  File "/x/mine.py", line 3, in flaky
    raise ValueError("out of sorts")
ValueError: out of sorts
"""
UNREAD = """[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in%20[1]/2.parquet.{state}
Caused by: java.lang.RuntimeException: file:/in [1]/2.parquet is not a Parquet file. Expected magic number at tail
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (WORKER + CALLS, "ValueError: out of sorts"),
        (CALLS + WORKER, "ValueError: out of sorts"),
        ("something happened\nand more of it" + CALLS, "something happened"),
        ("plain", "plain"),
        ("", ""),
        (CALLS, CALLS),
        (
            "java.io.IOException: No space left on device" + CALLS + WORKER,
            "the disk is full: No space left on device. Free some of it and start again; of the directory, files in"
            " results/ and late/ may be moved away, those in segments/ may not",
        ),
    ],
)
def test_one_line_says_it(text: str, cause: str) -> None:
    assert first_cause(text) == cause


@pytest.mark.parametrize("state", [" SQLSTATE: KD001", "  SQLSTATE: KD001", " Something else", ""])
def test_a_file_that_cannot_be_read_is_named_as_the_user_knows_it(state: str) -> None:
    text = "org.apache.spark.SparkException: " + UNREAD.format(state=state) + CALLS
    said = first_cause(text)
    assert said.startswith("the file '/in [1]/2.parquet' cannot be read: it is not a Parquet file. Expected magic"), (
        said
    )
    assert said.endswith("Mend or remove it, and start again")
    assert "\n" not in said


def test_a_file_that_cannot_be_read_for_no_reason() -> None:
    said = first_cause(UNREAD.format(state=" SQLSTATE: KD001").partition("\n")[0])
    assert "'/in [1]/2.parquet' cannot be read: no reason is given;" in said
