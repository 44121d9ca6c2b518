"""Faults of a store, made for real: a lock of another process, a full disk, a file moved away."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
"""
_ENDS = ("", "-wal", "-shm", "-claims")


@contextmanager
def locked(db: Path) -> Iterator[None]:
    """Another process holds the write lock."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(db)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "locked\n"
        try:
            yield
        finally:
            holder.stdin.close()


@contextmanager
def full(db: Path) -> Iterator[None]:
    """The disk is full; `small_disk` gives the folder of one that can be."""
    ballast = db.with_name("ballast")
    descriptor = os.open(ballast, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(descriptor, bytes(4096))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    finally:
        os.close(descriptor)
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def moved(db: Path, *, alone: bool = False) -> Iterator[None]:
    """The file is in another folder, with the files beside it or without."""
    away = db.with_name("away")
    away.mkdir()
    moved = [end for end in (("",) if alone else _ENDS) if Path(f"{db}{end}").exists()]
    for end in moved:
        Path(f"{db}{end}").rename(away / f"{db.name}{end}")
    try:
        yield
    finally:
        for end in reversed(moved):
            (away / f"{db.name}{end}").rename(f"{db}{end}")
        away.rmdir()


@contextmanager
def moved_alone(db: Path) -> Iterator[None]:
    """The file is in another folder, and the files beside it are not."""
    with moved(db, alone=True):
        yield


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A folder on a disk of a few megabytes."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"only root may mount the disk that this test fills: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
