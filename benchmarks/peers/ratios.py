"""The arithmetic behind the tables of `collectives`, and the tables.

A cell is an operation and the bytes of its whole vector. A figure is what one
stack showed in one cell: the time of a call in each round.
"""

import dataclasses
import statistics

OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather")
# What a stack is in a comparison.
OURS, PEER, CEILING = "ours", "peer", "ceiling"

_UNITS = ((1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclasses.dataclass
class Figure:
    """Times in microseconds, one a round, and the load before each round."""

    microseconds: list = dataclasses.field(default_factory=list)
    loads: list = dataclasses.field(default_factory=list)
    # Why there is no time: "over limit", or how the program failed.
    reason: str = ""

    @property
    def usable(self):
        return bool(self.microseconds) and not self.reason

    @property
    def median(self):
        return statistics.median(self.microseconds)

    @property
    def least(self):
        return min(self.microseconds)

    @property
    def greatest(self):
        return max(self.microseconds)


def bus_factor(operation, ranks):
    """Bytes that must pass each rank's link, for each byte of the vector.

    As nccl-tests define it: with it, one operation of any number of ranks shows
    the speed of the hardware.
    """
    factor = (ranks - 1) / ranks
    return 2 * factor if operation == "all_reduce" else factor


def algorithm_bandwidth(size, microseconds):
    """GB/s: bytes of the whole vector over the time of a call."""
    return size / microseconds / 1e3


def bus_bandwidth(operation, ranks, size, microseconds):
    return bus_factor(operation, ranks) * algorithm_bandwidth(size, microseconds)


def best_peer(figures, roles):
    """The name of the peer with the least median, or None."""
    usable = [
        name
        for name, figure in figures.items()
        if roles[name] == PEER and figure.usable
    ]
    return min(usable, key=lambda name: figures[name].median, default=None)


def ratio(ours, other):
    """Our time over the other's: below 1 we are ahead. None without both."""
    if ours is None or other is None or not (ours.usable and other.usable):
        return None
    return ours.median / other.median


def ratio_of_leasts_text(ours, other):
    """The same of the least times, which others on the machine touch less."""
    if ratio(ours, other) is None:
        return "-"
    return f"{ours.least / other.least:.2f}"


def apart(ours, other):
    """Whether the ranges of two figures leave a gap, as a claim needs."""
    return ours.greatest < other.least or other.greatest < ours.least


def size_text(size):
    for unit, name in _UNITS:
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def number_text(value):
    """Four digits, and no exponent."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def figure_text(figure):
    if figure is None:
        return "-"
    if not figure.usable:
        return figure.reason
    median, least, greatest = map(
        number_text, (figure.median, figure.least, figure.greatest)
    )
    return f"{median} ({least} to {greatest})"


def ratio_text(ours, other):
    value = ratio(ours, other)
    if value is None:
        return "-"
    return f"{value:.2f}" + ("" if apart(ours, other) else " ~")


def share_text(ceiling, ours):
    value = ratio(ceiling, ours)
    return "-" if value is None else f"{100 * value:.0f} %"


def markdown(rows):
    """A table of texts, the first row its head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(text.ljust(w) for text, w in zip(row, widths)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def ratio_table(cells, figures, roles):
    """Ours beside the best peer and the ceiling.

    `figures` has a dict for each cell, from the name of a stack to its figure.
    """
    ours = [name for name, role in roles.items() if role == OURS]
    ceilings = [name for name, role in roles.items() if role == CEILING]
    head = ["operation", "size", "best peer", "its time, us"]
    for name in ours:
        head += [f"{name}, us", f"{name} / best", "of leasts"]
        head += [f"{name}, of {ceiling}" for ceiling in ceilings]
    rows = [head]
    for operation, size in cells:
        cell = figures[operation, size]
        best = best_peer(cell, roles)
        row = [operation, size_text(size), best or "none"]
        row.append(figure_text(cell.get(best)))
        for name in ours:
            row.append(figure_text(cell.get(name)))
            row.append(ratio_text(cell.get(name), cell.get(best)))
            row.append(ratio_of_leasts_text(cell.get(name), cell.get(best)))
            row += [share_text(cell.get(c), cell.get(name)) for c in ceilings]
        rows.append(row)
    return markdown(rows)


def figure_table(cells, figures, roles, ranks):
    """Every figure, with the bus bandwidth of its median."""
    rows = [["operation", "size", "stack", "time, us", "bus GB/s", "load"]]
    for operation, size in cells:
        for name in roles:
            figure = figures[operation, size].get(name)
            if figure is None:
                continue
            row = [operation, size_text(size), name, figure_text(figure)]
            if figure.usable:
                speed = bus_bandwidth(operation, ranks, size, figure.median)
                row.append(f"{speed:.3g}")
                row.append(f"{min(figure.loads):.1f} to {max(figure.loads):.1f}")
            else:
                row += ["-", "-"]
            rows.append(row)
    return markdown(rows)
