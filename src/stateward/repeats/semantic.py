"""Local embeddings, for `pip install 'stateward[semantic]'`: no network, no GPU, no torch.

The weights (a table of word vectors, 16 MB) come inside the wheel of `wordllama`. Its two files
are read directly: the package's own loader looks on the network for what it carries.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from stateward.errors import InvalidInput

WEIGHTS = Path("weights", "l2_supercat_256.safetensors")
TOKENIZER = Path("tokenizers", "l2_supercat_tokenizer_config.json")
TABLE = "embedding.weight"
LIKE = 0.65  # higher than it finds most, so that a profile full of slots raises no alarm


def local_embed() -> Callable[[list[str]], list[list[float]]]:
    """An `embed=` function that runs here. The first call loads the weights, in about 0.1 s.

    Raises `InvalidInput`, with the pip line, where the extra is not installed.
    """
    tokenizer, table = _load()

    def embed(texts: list[str]) -> list[list[float]]:
        vectors = []
        for encoding in tokenizer.encode_batch([text[:1000] for text in texts]):
            rows = table[encoding.ids] if encoding.ids else table[:1]
            vectors.append([float(value) for value in rows.mean(axis=0)])
        return vectors

    embed.like = LIKE  # type: ignore[attr-defined]
    return embed


@lru_cache(maxsize=1)
def _load() -> tuple[Any, Any]:
    package = importlib.util.find_spec("wordllama")
    if package is None or not package.submodule_search_locations:
        raise InvalidInput(
            "local embeddings need the extra: pip install 'stateward[semantic]'; or pass an embed= "
            "function of your own, or none"
        )
    home = Path(package.submodule_search_locations[0])
    tokenizer = importlib.import_module("tokenizers").Tokenizer.from_file(str(home / TOKENIZER))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    tensors = importlib.import_module("safetensors.numpy").load_file(str(home / WEIGHTS))
    return tokenizer, tensors[TABLE].astype("float32")
