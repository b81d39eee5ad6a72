# SPDX-License-Identifier: Apache-2.0
"""Throughput over size, by gnuplot."""
import shutil
import statistics
import subprocess

# Series, title, colour, dashes: what Ferry does is solid, what it is compared with dashed; a colour is a wire.
CURVES = (
    ("sizes.memcpy", "memcpy", "#767676", "2"),
    ("sizes.local.read", "Ferry, local, read", "#1a6fb0", "1"),
    ("sizes.local.write", "Ferry, local, write", "#56a3d9", "1"),
    ("sizes.network.read", "Ferry, network, read", "#c1440e", "1"),
    ("sizes.network.write", "Ferry, network, write", "#e8914f", "1"),
    ("sizes.rendezvous.tcp", "bare rendezvous, TCP", "#c1440e", "3"),
    ("sizes.get", "one ucp\\_get, TCP", "#5b8c3a", "2"),
)
SIZES = (("4 KiB", 1 << 12), ("64 KiB", 1 << 16), ("1 MiB", 1 << 20), ("16 MiB", 1 << 24), ("256 MiB", 1 << 28),
         ("1 GiB", 1 << 30))


def curve_points(samples, prefix):
    """[(size, median)] of the series prefix.SIZE."""
    return sorted((int(name.rpartition(".")[2]), statistics.median(values)) for name, values in samples.items()
                  if name.rpartition(".")[0] == prefix)


def script(samples, target):
    """What gnuplot is told; None when there is nothing to plot."""
    data, plots, ends = [], [], []
    for number, (prefix, title, colour, dashes) in enumerate(CURVES):
        points = curve_points(samples, prefix)
        if not points:
            continue
        ends += [points[0], points[-1]] + [max(points, key=lambda p: p[1])]
        data += [f"$d{number} << EOD"] + [f"{size} {value}" for size, value in points] + ["EOD"]
        plots.append(f"$d{number} using 1:2 with linespoints lc rgb '{colour}' lw 2 dt {dashes} pt 7 ps 0.4 title '{title}'")
    if not plots:
        return None
    sizes = ", ".join(f"'{text}' {size}" for text, size in SIZES)
    return "\n".join(data + [
        "set terminal svg size 900,520 dynamic font 'Helvetica,Arial,sans-serif,14' background '#ffffff'",
        f"set output '{target}'",
        "set title 'Throughput over size: whole transfers through REST, beside bare references'",
        "set logscale x 2", "set logscale y 10",
        f"set xtics ({sizes})",
        f"set xrange [{ends[0][0] / 1.2:.0f}:{max(size for size, _ in ends) * 1.2:.0f}]", "set xlabel 'size of the transfer'",
        f"set yrange [{min(rate for _, rate in ends) / 1.5:.4g}:{max(rate for _, rate in ends) * 1.5:.4g}]",
        "set ytics (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)", "set ylabel 'GB/s'",
        "set grid lc rgb '#d8d8d8'", "set border 3", "set tics nomirror",
        "set key outside right center Left reverse spacing 1.3 samplen 3", "plot " + ", ".join(plots)]) + "\n"


def plot_sizes(samples, target):
    """True when gnuplot made the SVG."""
    text = script(samples, target)
    if not text or not shutil.which("gnuplot"):
        return False
    subprocess.run(["gnuplot"], input=text, text=True, check=True)
    return True
