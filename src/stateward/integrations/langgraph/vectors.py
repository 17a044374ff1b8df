"""Search by meaning, for a store with an index: vectors are stored beside their items.

Every vector of the namespace is compared with the query: right for thousands of items, not for
millions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import dist, sqrt
from typing import Any

from langgraph.store.base import (
    IndexConfig,
    Op,
    PutOp,
    SearchOp,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
)
from msgspec import Struct, field

from stateward.codec import decode, encode
from stateward.errors import InvalidInput
from stateward.ops import Found

VECTORS = "vectors"

Address = tuple[tuple[str, ...], str]


class Vectors(Struct, frozen=True):
    """The embeddings for one batch: queries, and the vectors of items as JSON text."""

    queries: dict[str, list[float]] = field(default_factory=dict)
    texts: dict[Address, str] = field(default_factory=dict)


class VectorIndex:
    """The embedding of items, as configured in LangGraph."""

    def __init__(self, config: IndexConfig) -> None:
        if "embed" not in config:
            raise InvalidInput("index= needs 'embed': a function or an Embeddings object")
        self._embeddings = ensure_embeddings(config["embed"])
        self._dims = config.get("dims")
        self._fields = list(config.get("fields") or ["$"])
        postgres: Any = config  # LangGraph's PostgreSQL store has more keys
        distance = postgres.get("distance_type", "cosine")
        if distance not in SIMILARITIES:
            raise InvalidInput(
                f"'distance_type' of index= is one of {', '.join(SIMILARITIES)}, not {distance!r}"
            )
        self.similarity = SIMILARITIES[distance]

    def embed(self, ops: Sequence[Op]) -> Vectors:
        """Return the vectors that these operations need."""
        queries, texts = self._wanted(ops)
        flat = [text for own in texts.values() for text in own]
        embeddings = self._embeddings.embed_documents(flat) if flat else []
        return self._made({q: self._embeddings.embed_query(q) for q in queries}, texts, embeddings)

    async def aembed(self, ops: Sequence[Op]) -> Vectors:
        """See `embed`."""
        queries, texts = self._wanted(ops)
        flat = [text for own in texts.values() for text in own]
        embeddings = await self._embeddings.aembed_documents(flat) if flat else []
        asked = {query: await self._embeddings.aembed_query(query) for query in queries}
        return self._made(asked, texts, embeddings)

    def _wanted(self, ops: Sequence[Op]) -> tuple[list[str], dict[Address, list[str]]]:
        queries = [op.query for op in ops if isinstance(op, SearchOp) and op.query]
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        texts = {address: self._texts(op) for address, op in puts.items()}
        return list(dict.fromkeys(queries)), {at: own for at, own in texts.items() if own}

    def _texts(self, op: PutOp) -> list[str]:
        if op.value is None or op.index is False:
            return []
        paths = self._fields if op.index is None else list(op.index)
        tokens = [path if path == "$" else tokenize_path(path) for path in paths]
        return [text for path in tokens for text in get_text_at_path(op.value, path)]

    def _made(
        self,
        queries: dict[str, list[float]],
        texts: dict[Address, list[str]],
        found: Sequence[Sequence[float]],
    ) -> Vectors:
        vectors = iter(found)
        lists = {at: [self._vector(next(vectors)) for _ in own] for at, own in texts.items()}
        return Vectors(
            {query: self._vector(vector) for query, vector in queries.items()},
            {at: encode(own, "the vectors of an item") for at, own in lists.items()},
        )

    def _vector(self, given: Sequence[Any]) -> list[float]:
        vector = [float(number) for number in given]
        if self._dims is not None and len(vector) != self._dims:
            raise InvalidInput(
                f"the embedding has {len(vector)} numbers and index= says dims={self._dims}: "
                "set dims to what the model gives"
            )
        return vector


def nearest(
    query: list[float], found: Sequence[Found], similarity: Similarity
) -> list[tuple[Found, float | None]]:
    """Return items sorted by their nearest vector; items without vectors come last."""
    scored: list[tuple[Found, float | None]] = []
    rest: list[tuple[Found, float | None]] = []
    for each in found:
        value = each.documents.get(VECTORS)
        if value is None:
            rest.append((each, None))
        else:
            vectors = decode(value.json)
            if any(len(vector) != len(query) for vector in vectors):
                raise InvalidInput(
                    "the stored vectors and the query have different lengths: they come from "
                    "different models; put the items again after changing index="
                )
            score = max(similarity(query, vector) for vector in vectors)
            scored.append((each, score))
    scored.sort(key=lambda pair: pair[1] or 0.0, reverse=True)
    return scored + rest


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    norms = sqrt(sum(x * x for x in one)) * sqrt(sum(x * x for x in other))
    return _inner_product(one, other) / norms if norms else 0.0


def _inner_product(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(one, other, strict=True))


def _nearness(one: Sequence[float], other: Sequence[float]) -> float:
    return -dist(one, other)


Similarity = Callable[[Sequence[float], Sequence[float]], float]
SIMILARITIES: dict[str, Similarity] = {
    "cosine": _cosine,
    "inner_product": _inner_product,
    "l2": _nearness,
}
