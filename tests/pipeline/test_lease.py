"""One run at a time: by a lock of the system on a local disk, by a lease elsewhere."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from millstream.engine.files import Files
from millstream.errors import ScriptError
from millstream.pipeline.directory import Directory
from millstream.pipeline.lease import LOCK, Lease

SCRIPT = """
CREATE STREAM A (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE QUERY q AS SELECT x.k FROM A x, A y WHERE x.k = y.k WINDOW 9 SECONDS;
"""
TAKEN_OVER = r"/lock: another run has taken over this directory \(process \d+ on .*\); a run that .* Nothing of"


def elsewhere(place: Path) -> Files:
    """Files on a file system that is not known to be local, and so has no lock."""
    files = Files(fs.SubTreeFileSystem(str(place), fs.LocalFileSystem()), "state")
    files.make()
    return files


def test_a_second_run_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    files = elsewhere(tmp_path)
    first, second = Lease(files, settle=0), Lease(files, settle=0)
    assert not first.is_taken()
    with first.held():
        assert second.is_taken()
        with pytest.raises(ScriptError, match=r"a pipeline is running here \(process \d+ on .*\); a directory belongs"):
            second.take()
        first.check()
    assert not second.is_taken()
    assert files.names() == []
    second.take()


def test_a_lease_that_is_not_renewed_goes_to_another(tmp_path: Path) -> None:
    files = elsewhere(tmp_path)
    first, second = Lease(files, settle=0), Lease(files, settle=0, expire=0)
    first.take()
    second.take()
    second.check()
    with pytest.raises(ScriptError, match=TAKEN_OVER):
        first.check()
    first.leave()
    assert second.is_taken() is False
    second.check()


def test_a_lease_is_renewed_while_it_is_held(tmp_path: Path) -> None:
    files, renewed = elsewhere(tmp_path), threading.Semaphore(0)

    class Counted(Lease):
        def renew(self) -> None:
            super().renew()
            renewed.release()

    with Counted(files, settle=0, renew=0.001).held() as lease:
        for _ in range(3):
            assert renewed.acquire(timeout=30)
        lease.check()


def test_of_two_that_take_it_at_once_the_last_to_write_has_it(tmp_path: Path) -> None:
    files = elsewhere(tmp_path)
    second = Lease(files, settle=0)

    class Slow(Lease):
        def renew(self) -> None:
            super().renew()
            second.renew()  # it had looked before

    with pytest.raises(ScriptError, match="a pipeline is running here"):
        Slow(files, settle=0).take()
    second.check()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b'{"owner": 3}', None])
def test_a_lock_that_is_lost_or_damaged_is_ours_as_long_as_nobody_claims_it(
    tmp_path: Path, content: bytes | None
) -> None:
    files = elsewhere(tmp_path)
    lease = Lease(files, settle=0)
    lease.take()
    files.delete(LOCK) if content is None else files.write(LOCK, content)
    lease.check()
    with pytest.raises(ScriptError, match="a pipeline is running here"):
        Lease(files, settle=0).take()


def test_a_run_that_has_lost_its_lease_commits_nothing(mill: Callable[..., Any], tmp_path: Path) -> None:
    files = elsewhere(tmp_path)
    found = mill(SCRIPT)
    found.pipeline.directory = Directory(str(tmp_path / "state"), files)
    for _ in range(3):
        found.put({"A": []})
    taken: list[Lease] = []

    def takes_over(_: object) -> None:
        if not taken:
            taken.append(Lease(files, settle=0, expire=0))
            taken[0].take()

    found.pipeline._on_batch = takes_over
    with pytest.raises(ScriptError, match=TAKEN_OVER):
        found.pipeline.drain()
    assert [path.name for path in (tmp_path / "state" / "manifest").iterdir()] == ["000000000001.json"]
    taken[0].check()


def test_a_second_run_beside_a_deleted_lock_is_noticed(tmp_path: Path) -> None:
    """The system's lock goes with the file: without looking again both would go on."""
    one, other = Directory.at(tmp_path), Directory.at(tmp_path)
    with one.locked():
        (tmp_path / "lock").unlink()
        one.check_ours()
        assert other.is_running(), "the lock is made anew"
        (tmp_path / "lock").unlink()
        with other.locked():
            with pytest.raises(ScriptError, match=r"a pipeline is running here \(process \d+\)"):
                one.check_ours()
            other.check_ours()


def test_to_look_refuses_nobody_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks holds the lock for an instant, here until a start has asked in vain."""
    flock, in_vain = fcntl.flock, threading.Event()

    def spy(file: Any, how: int) -> None:
        try:
            flock(file, how)
        except BlockingIOError:
            in_vain.set()
            raise

    (tmp_path / "lock").touch()
    looking = (tmp_path / "lock").open()
    fcntl.flock(looking, fcntl.LOCK_SH)
    with ExitStack() as stack:
        asking = threading.Thread(target=lambda: stack.enter_context(Directory.at(tmp_path).locked()))
        monkeypatch.setattr(fcntl, "flock", spy)
        asking.start()
        assert in_vain.wait(30)
        looking.close()
        asking.join()
        assert Directory.at(tmp_path).is_running()


def test_the_system_lets_go_when_a_process_dies(tmp_path: Path) -> None:
    code = f"""
from millstream.pipeline.directory import Directory
with Directory.at({str(tmp_path)!r}).locked():
    print("held", flush=True)
    input()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(ScriptError, match=rf"a pipeline is running here \(process {process.pid}\)"):
            Directory.at(tmp_path).locked().__enter__()
        process.kill()
    with Directory.at(tmp_path).locked():
        pass


def test_something_else_in_the_place_of_the_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    assert not Directory.at(tmp_path).is_running()
    with pytest.raises(ScriptError, match=r"/lock: the lock cannot be opened \(Is a directory\); a pipeline holds"):
        Directory.at(tmp_path).locked().__enter__()
