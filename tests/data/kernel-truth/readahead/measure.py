#!/usr/bin/env python3
"""Measures anew what the running kernel reads, in the files beside this script. Needs root and fio.

    ./measure.py sequences sequences-6.18.44.txt > sequences-$(uname -r).txt
    ./measure.py jobs jobs-6.18.44.txt > jobs-$(uname -r).txt

It makes a loop device of 1 GiB over tmpfs and removes it again. README.md has the formats.
"""

import ctypes
import json
import mmap
import os
import subprocess
import sys
import tempfile
import time

PAGE = 4096
SIZE = 1 << 30
SPAN = 64 << 20  # The part of the device that the sequences use.
ALIGN = 2 << 20
ADVICE = {"normal": 0, "random": 1, "sequential": 2}

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Device:
    """A loop device over a file in tmpfs."""

    def __enter__(self):
        self.place = tempfile.mkdtemp()
        run("mount", "-t", "tmpfs", "tmpfs", self.place)
        path = os.path.join(self.place, "disk")
        with open(path, "wb") as disk:
            disk.truncate(SIZE)
        self.path = run("losetup", "-f", "--show", path)
        self.set_readahead(128)
        return self

    def __exit__(self, *_):
        run("losetup", "-d", self.path)
        run("umount", "-l", self.place)
        os.rmdir(self.place)

    def sys(self, name):
        return f"/sys/block/{os.path.basename(self.path)}/{name}"

    def set_readahead(self, kib):
        with open(self.sys("queue/read_ahead_kb"), "w") as file:
            file.write(str(kib))

    def drop(self):
        run("blockdev", "--flushbufs", self.path)

    def reads(self):
        """Requests and sectors read."""
        fields = self.fields()
        return fields[0], fields[2]

    def fields(self):
        with open(self.sys("stat")) as file:
            return [int(field) for field in file.read().split()]

    def settle(self):
        """Waits until no request is in flight."""
        while self.fields()[8] > 0:
            time.sleep(0.0002)


class Opened:
    """A descriptor of the device with a mapping of its first 64 MiB, aligned to 2 MiB."""

    def __init__(self, device):
        self.fd = os.open(device.path, os.O_RDWR)
        shared = mmap.MAP_SHARED
        area = libc.mmap(None, SPAN + ALIGN, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        self.area = area
        self.at = (area + ALIGN - 1) // ALIGN * ALIGN
        both = mmap.PROT_READ | mmap.PROT_WRITE
        assert libc.mmap(self.at, SPAN, both, shared | 0x10, self.fd, 0) == self.at

    def close(self):
        libc.munmap(self.area, SPAN + ALIGN)
        os.close(self.fd)

    def cached(self):
        pages = ctypes.create_string_buffer(SPAN // PAGE)
        assert libc.mincore(self.at, SPAN, pages) == 0
        return bytes(page & 1 for page in pages.raw[: SPAN // PAGE])

    def do(self, what, words):
        if what == "read":
            offset, size = map(int, words)
            os.pread(self.fd, size, offset)
        elif what == "load":
            ctypes.string_at(self.at + int(words[0]) * PAGE, 1)
        elif what == "store":
            ctypes.memmove(self.at + int(words[0]) * PAGE, b"x", 1)
        elif what == "fadvise":
            os.posix_fadvise(self.fd, 0, 0, ADVICE[words[0]])
        elif what == "madvise":
            assert libc.madvise(self.at, SPAN, ADVICE[words[0]]) == 0
        else:
            sys.exit(f"{what}: unknown")


def runs(before, after):
    found = []
    for page, (was, now) in enumerate(zip(before, after)):
        if now and not was:
            if found and found[-1][0] + found[-1][1] == page:
                found[-1][1] += 1
            else:
                found.append([page, 1])
    return " ".join(f"{first}+{pages}" for first, pages in found)


def sequences(device, lines):
    opened, looker = {}, None

    def reset():
        for one in opened.values():
            one.close()
        opened.clear()
        if looker:
            looker.close()
        device.drop()

    cached = b""
    for line in lines:
        line = line.split(">")[0].strip()
        if line.startswith("="):
            reset()
            device.set_readahead(int(line.partition("read_ahead_kb=")[2] or 128))
            looker = Opened(device)
            cached = looker.cached()
            print(line)
        elif not line or line.startswith("#"):
            print(line)
        else:
            what, name, *words = line.split()
            if name not in opened:
                opened[name] = Opened(device)
            opened[name].do(what, words)
            device.settle()
            now = looker.cached()
            print(line, ">", runs(cached, now))
            cached = now
    reset()
    looker = None


def job_file(options, path):
    """A job of fio: options, jobs behind each " / "; the options before the first " : " are global."""
    common, _, jobs = options.rpartition(" : ")
    text = [f"[global]\nfilename={path}\ndirect=0"] + common.split()
    for number, job in enumerate(jobs.split(" / ")):
        text += [f"[job{number}]"] + job.split()
    return "\n".join(text) + "\n"


def jobs(device, lines):
    for line in lines:
        line = line.split(">")[0].strip()
        if not line or line.startswith("#"):
            print(line)
            continue
        results = []
        for _ in range(2):
            device.drop()
            with tempfile.NamedTemporaryFile("w", suffix=".fio") as file:
                file.write(job_file(line, device.path))
                file.flush()
                before = device.reads()
                said = run("fio", "--output-format=json", file.name)
            after = device.reads()
            faults = sum(job["majf"] for job in json.loads(said[said.index("{"):])["jobs"])
            results.append((after[0] - before[0], after[1] - before[1], faults))
        seen = sorted(set(results))
        print(line, ">", " or ".join(" ".join(map(str, one)) for one in seen))


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("sequences", "jobs"):
        sys.exit(__doc__)
    with open(sys.argv[2]) as file:
        lines = file.read().splitlines()
    with Device() as device:
        {"sequences": sequences, "jobs": jobs}[sys.argv[1]](device, lines)


if __name__ == "__main__":
    main()
