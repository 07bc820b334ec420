"""Options of the JVM that a project file gives stand beside Belvedere's own, in a session of its own process."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASK = """
from belvedere.spark.jvm.quiet_session import end_spark, quiet_session
java = {
    "spark.driver.extraJavaOptions": "-Dmine=1 -Duser.timezone=Asia/Tokyo",
    "spark.executor.extraJavaOptions": "-Dtheirs=2",
}
spark = quiet_session({"cores": "1", "memory": "1g", **java})
system = spark._jvm.java.lang.System
print(*(system.getProperty(n) for n in ("mine", "user.timezone", "log4j2.configurationFile", "java.io.tmpdir")))
print(spark.conf.get("spark.executor.extraJavaOptions"))
end_spark(spark)
"""


@pytest.mark.spark
def test_they_are_joined() -> None:
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, timeout=120, check=True)
    driver, executor = done.stdout.splitlines()
    mine, zone, logging, folder = driver.split()
    assert (mine, zone) == ("1", "UTC")
    assert logging.endswith("belvedere/spark/log4j2.properties")
    assert "spark-" in folder
    assert executor == "-Duser.timezone=UTC -Dtheirs=2 -Duser.timezone=UTC"
