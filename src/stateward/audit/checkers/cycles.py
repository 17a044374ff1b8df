"""Cycles of transactions that come before each other: search, names and descriptions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise

from stateward.audit.checkers.anomalies import Anomaly
from stateward.audit.checkers.histories import ListAppend, Lists, Value

WW, WR, RW, PROCESS, REALTIME = 1, 2, 4, 8, 16
ORDERS = ((0, ""), (PROCESS, "-process"), (PROCESS | REALTIME, "-realtime"))

Path = list[tuple[int, int, int]]  # from, to, kind of edge


class Graph:
    """Graph of transactions by precedence. Nodes behind the transactions are moments between them.

    Real-time order has a number of pairs that grows with the square of the history. A moment
    stands for all pairs across it: what completed before leads to it, and it leads to what
    was invoked after.
    """

    def __init__(self, lists: Lists) -> None:
        self.lists = lists
        self.size = len(lists.history)
        self.out: list[list[tuple[int, int]]] = [[] for _ in range(self.size)]
        for key, order in lists.sound():
            self._data_edges(key, order)
        self._process_edges()
        self._moments()

    def _edge(self, start: int | None, end: int | None, kind: int) -> None:
        if start is not None and end is not None and start != end:
            self.out[start].append((end, kind))

    def _data_edges(self, key: str, order: tuple[Value, ...]) -> None:
        writers = [self.lists.writer(key, value) for value in order]
        for before, after in pairwise(writers):
            self._edge(before, after, WW)
        for reader, values in self.lists.reads[key]:
            length = len(values)
            self._edge(writers[length - 1] if length else None, reader, WR)
            self._edge(reader, writers[length] if length < len(writers) else None, RW)

    def _process_edges(self) -> None:
        last: dict[int, int] = {}
        for number, transaction in enumerate(self.lists.history):
            if transaction.status == "ok":
                self._edge(last.get(transaction.process), number, PROCESS)
                last[transaction.process] = number

    def _moments(self) -> None:
        events: list[tuple[float, bool, int]] = []
        for number, transaction in enumerate(self.lists.history):
            if transaction.status != "fail":
                events.append((transaction.invoked, False, number))
            if transaction.status == "ok":
                events.append((transaction.completed, True, number))
        events.sort()  # invocations first: what happens at the same time is concurrent
        completed: list[int] = []
        moment: int | None = None
        for _, completes, number in events:
            if completes:
                completed.append(number)
                continue
            if completed:
                self.out.append([])
                now = len(self.out) - 1
                for before in completed:
                    self._edge(before, now, REALTIME)
                self._edge(moment, now, REALTIME)
                moment, completed = now, []
            self._edge(moment, number, REALTIME)

    def knots(self, nodes: Iterable[int], kinds: int) -> Iterator[set[int]]:
        """Sets of nodes that all lead to each other over edges of these kinds, two or more."""
        inside = set(nodes)

        def successors(node: int) -> list[int]:
            return [end for end, kind in self.out[node] if kind & kinds and end in inside]

        return (set(part) for part in components(inside, successors) if len(part) > 1)

    def way(self, start: int, goal: int, inside: set[int], kinds: int) -> Path | None:
        """Return the shortest path of at least one edge."""
        arrivals: dict[int, tuple[int, int]] = {}
        queue = deque([start])
        while queue:
            node = queue.popleft()
            for end, kind in self.out[node]:
                if kind & kinds and end in inside and end not in arrivals:
                    arrivals[end] = (node, kind)
                    queue.append(end)
            if goal in arrivals:
                break
        else:
            return None
        path: Path = []
        node = goal
        while not path or node != start:
            before, kind = arrivals[node]
            path.append((before, node, kind))
            node = before
        return path[::-1]


def cycles(lists: Lists) -> Iterator[Anomaly]:
    """Return one finding for every knot of transactions, named after its plainest cycle."""
    graph = Graph(lists)
    for knot in graph.knots(range(len(graph.out)), ~0):
        name, path = plainest(graph, knot)
        steps = _steps(graph, path)
        example = f"{len(steps)} transactions each come before the next, in a cycle:"
        for start, end, kind in steps:
            example += f"\n  T{start} before T{end}: {_why(lists, start, end, kind)}"
        yield lists.found(name, example, *(start for start, _, _ in steps))


def plainest(graph: Graph, knot: set[int]) -> tuple[str, Path]:
    """The cycle that needs the fewest kinds of edges."""
    for order, suffix in ORDERS:
        for name, kinds in (("G0", WW), ("G1c", WW | WR), ("G-single", 0), ("G2", WW | WR | RW)):
            if name == "G-single":
                path = _with_one_rw(graph, knot, WW | WR | order)
            else:
                path = _some_cycle(graph, knot, kinds | order)
            if path is not None:
                return name + suffix, path
    raise AssertionError("a knot without a cycle")


def _some_cycle(graph: Graph, knot: set[int], kinds: int) -> Path | None:
    for part in graph.knots(knot, kinds):
        start = min(part)
        return graph.way(start, start, part, kinds)
    return None


def _with_one_rw(graph: Graph, knot: set[int], kinds: int) -> Path | None:
    edges = ((n, end) for n in sorted(knot) for end, kind in graph.out[n] if kind == RW)
    inner = ((start, end) for start, end in edges if end in knot)
    for start, end in islice(inner, 100):  # enough to name it; a search of all would take days
        if (back := graph.way(end, start, knot, kinds)) is not None:
            return [(start, end, RW), *back]
    return None


def _steps(graph: Graph, path: Path) -> Path:
    """Return the path without moments: one step across each, from the node before."""
    first = next(i for i, (start, _, _) in enumerate(path) if start < graph.size)
    steps: Path = []
    for start, end, kind in path[first:] + path[:first]:
        if start < graph.size:
            steps.append((start, end, kind))
        else:
            steps[-1] = (steps[-1][0], end, REALTIME)
    return steps


def _why(lists: Lists, start: int, end: int, kind: int) -> str:
    """An edge in words, from what the two transactions did."""
    one, other = lists.history[start], lists.history[end]
    if kind == PROCESS:
        return f"process {one.process} did the one after the other"
    if kind == REALTIME:
        return f"it had completed at {one.completed:g}, the other was invoked at {other.invoked:g}"
    for op in (other if kind == WR else one).ops:
        order = lists.order.get(op.key, ())
        if isinstance(op, ListAppend):
            place = order.index(op.value) + 1 if kind == WW and op.value in order else len(order)
            if place < len(order) and lists.writer(op.key, order[place]) == end:
                return f"in {op.key!r}, {op.value!r} is directly before {order[place]!r}"
        elif kind == WR and op.values and lists.writer(op.key, op.values[-1]) == start:
            return f"the other read its {op.values[-1]!r} in {op.key!r}"
        elif kind == RW and len(op.values) < len(order):
            missing = order[len(op.values)]
            if lists.writer(op.key, missing) == end:
                return f"it read {op.key!r} without the other's {missing!r}"
    raise AssertionError("an edge that nothing explains")


def components(
    nodes: Iterable[int], successors: Callable[[int], Sequence[int]]
) -> Iterator[list[int]]:
    """Strongly connected components (Tarjan), without recursion: histories are long."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in nodes:
        if root in number:
            continue
        work: list[tuple[int, Iterator[int]]] = [(root, iter(successors(root)))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, ends = work[-1]
            for end in ends:
                if end not in number:
                    number[end] = low[end] = len(number)
                    stack.append(end)
                    on_stack.add(end)
                    work.append((end, iter(successors(end))))
                    break
                if end in on_stack:
                    low[node] = min(low[node], number[end])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[node])
                if low[node] == number[node]:
                    part: list[int] = []
                    while not part or part[-1] != node:
                        part.append(stack.pop())
                        on_stack.discard(part[-1])
                    yield part
