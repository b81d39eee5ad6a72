# SPDX-License-Identifier: Apache-2.0
"""What bench.py has to know of the machine: what it is, and who else uses it."""
import ctypes
import mmap
import os
import platform
import subprocess
import threading
import time

# ---- who else uses it ----

OTHERS_MAX = 0.10  # of one processor, over a whole measurement
STEAL_MAX = 0.05
WINDOW_S = 1.0
WINDOW_OTHERS_MAX = 0.25  # over a window: the kernel counts in ticks, so that little can be said of short times
WINDOW_STEAL_MAX = 0.15


def cpu_times():
    """Seconds of CPU time since boot: used by processes (all of them), stolen by the host."""
    with open("/proc/stat", encoding="ascii") as f:
        fields = [int(x) for x in f.readline().split()[1:]]
    hz = os.sysconf("SC_CLK_TCK")
    user, nice, system, _idle, _iowait, _irq, _softirq, steal = fields[:8]  # interrupts are nobody's
    return (user + nice + system) / hz, steal / hz


def own_time(session):
    """Seconds of CPU time of this process and of the session (None = there is none), also of what ended in it."""
    hz, ticks = os.sysconf("SC_CLK_TCK"), 0
    own = str(os.getpid())
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue  # it ended
        if pid == own or int(fields[3]) == session:
            ticks += sum(int(x) for x in fields[11:15])
    return ticks / hz


class Noise:
    """How much of the processors went to others since the start, in processors: (others, stolen)."""

    def __init__(self, session=None):
        self.session = session
        self.begin()

    def begin(self):
        self.wall, (self.used, self.stolen), self.own = time.monotonic(), cpu_times(), own_time(self.session)

    def measure(self):
        wall, (used, stolen) = max(time.monotonic() - self.wall, 1e-3), cpu_times()
        others = max(used - self.used - (own_time(self.session) - self.own), 0) / wall
        return others, (stolen - self.stolen) / wall


class Watch(threading.Thread):
    """Looks once in a while, as long as a session's measurement runs."""

    def __init__(self, session):
        super().__init__(daemon=True)
        self.over, self.noise, self.windows = threading.Event(), Noise(session), []
        self.start()

    def run(self):
        last = False
        while not last:
            last = self.over.wait(WINDOW_S)
            begun = self.noise.wall
            if last and time.monotonic() - begun < WINDOW_S / 2:
                break  # too short to say anything
            seen = self.noise.measure()
            self.noise.begin()
            self.windows.append((begun, self.noise.wall, *seen))

    def end(self):
        """The disturbed times: (begin, end, others, stolen) of each, in seconds of the monotonic clock."""
        self.over.set()
        self.join()
        return [w for w in self.windows if w[2] > WINDOW_OTHERS_MAX or w[3] > WINDOW_STEAL_MAX]


def describe_noise(others, steal):
    return f"others used {others * 100:.0f} % of a processor, the host took {steal * 100:.0f} %"


def await_quiet(tries=3, seconds=2):
    """(quiet, text): what others did in the quietest of some moments; the build may have just ended."""
    best = None
    for _ in range(tries):
        noise = Noise()
        time.sleep(seconds)
        now = noise.measure()
        best = min(best or now, now, key=sum)
        if best[0] <= OTHERS_MAX and best[1] <= STEAL_MAX:
            break
    load = os.getloadavg()[0]
    quiet = best[0] <= OTHERS_MAX and best[1] <= STEAL_MAX
    return quiet, f"before: {describe_noise(*best)}; load average {load:.2f}"


# ---- how fast its memory is ----

MEMORY_MOVES_MAX = 0.75  # the slowest copy beside the fastest


class Memory:
    """
    Others on the host take memory's bandwidth, and no counter in here shows it: so a copy of 128 MiB is timed between
    the measurements.
    """

    SIZE = 128 << 20

    def __init__(self):
        self.maps = [mmap.mmap(-1, self.SIZE) for _ in range(2)]
        self.places = [ctypes.addressof(ctypes.c_char.from_buffer(m)) for m in self.maps]
        for place in self.places:
            ctypes.memset(place, 1, self.SIZE)
        self.rates = []

    def look(self):
        """Notes GB/s: the best of some, since our own programs may just be ending."""
        best = 0
        for _ in range(5):
            begun = time.perf_counter()
            ctypes.memmove(self.places[0], self.places[1], self.SIZE)
            best = max(best, self.SIZE / (time.perf_counter() - begun) / 1e9)
        self.rates.append(best)

    def is_steady(self):
        return min(self.rates) >= MEMORY_MOVES_MAX * max(self.rates)

    def describe(self):
        return f"between the measurements one memcpy made {min(self.rates):.1f} to {max(self.rates):.1f} GB/s"


# ---- what it is ----


def first_line(command):
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            return ""
        return ((run.stdout or run.stderr).splitlines() or [""])[0].strip()
    except OSError:
        return ""


def machine_facts():
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {"processor": f"{model or platform.machine()}, {os.cpu_count()} cores", "memory": f"{memory:.0f} GiB",
            "kernel": platform.release()}


def versions(ferryd):
    here = os.path.dirname(os.path.abspath(__file__))
    found = {"ferry": first_line([ferryd, "--version"]),
             "commit": first_line(["git", "-C", here, "describe", "--always", "--dirty", "--exclude", "*"])}
    for name in ("ucx", "libmicrohttpd", "libcurl", "json-c"):
        found[name] = first_line(["pkg-config", "--modversion", name])
    return {k: v for k, v in found.items() if v}
