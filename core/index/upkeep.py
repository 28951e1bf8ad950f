"""Keeps vectors and catalog together: what a killed ingest left is cleaned up, a new model gets new vectors."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence

from core.errors import EmbedderError
from core.index.embedding import Item, VectorWriter, collection_of, embedded_text, generation_of
from core.index.index import Index
from core.index.records import State

log = logging.getLogger(__name__)


async def delete_vectors(index: Index, generation: str, retired: Mapping[str, Iterable[str]]) -> None:
    """Deletes the vectors of passages, given by scope, that the catalog does not know any more."""
    for scope, ids in retired.items():
        await index.vectors.delete(collection_of(generation, scope), ids)


async def collect_orphans(index: Index, state: State) -> int:
    """Deletes every vector without a passage, as an ingest that did not reach its end leaves them.

    Collections of other models stay: one of them may be half of a change that is going to be continued. Before the
    first passage is committed no model is noted yet, and whatever vectors there are belong to nothing.
    """
    if not state.generation:
        counts = await index.vectors.collections()
        for collection in counts:
            await index.vectors.drop(collection)
        return sum(counts.values())
    known = {collection_of(state.generation, scope): ids for scope, ids in (await index.catalog.ids()).items()}
    found = 0
    for collection in await index.vectors.collections():
        if collection.startswith(f"{state.generation}-"):
            orphans = await index.vectors.ids(collection) - known.get(collection, set())
            await index.vectors.delete(collection, orphans)
            found += len(orphans)
    if found:
        log.info("Deleted %d vectors that an unfinished ingest had left.", found)
    return found


async def fill(index: Index, width: int, stored: Callable[[int], None]) -> VectorWriter:
    """Embeds every passage of the catalog that has no vector in its collection for a `width` of vectors.

    `stored` is called with the number of passages that got one. Can be interrupted and called again.
    """
    writer = VectorWriter(index.embedder, index.vectors, width=width)
    present: dict[str, Collection[str]] = {}

    async def missing() -> AsyncIterator[Item[None]]:
        async for page in index.catalog.stored():
            for passage in page:
                if passage.scope not in present:
                    collection = collection_of(writer.generation, passage.scope)
                    present[passage.scope] = await index.vectors.ids(collection)
                if passage.id not in present[passage.scope]:
                    text = embedded_text(passage.title, passage.heading, passage.text)
                    yield Item(id=passage.id, scope=passage.scope, text=text, owner=None)

    async def count(items: Sequence[Item[None]]) -> None:
        stored(len(items))

    await writer.write(missing(), count)
    return writer


async def switch_model(index: Index, progress: Callable[[int], None]) -> int:
    """Makes new vectors with the present embedding model, then uses them, then deletes those of the old one.

    Until the switch the old ones stay as they are. Returns the number of passages embedded.
    """
    width = await embedder_width(index)
    done = 0

    def stored(number: int) -> None:
        nonlocal done
        done += number
        progress(done)

    await fill(index, width, stored)
    await use_model(index, width)
    kept = generation_of(index.embedder.model, width)
    for collection in await index.vectors.collections():
        if not collection.startswith(f"{kept}-"):
            await index.vectors.drop(collection)
    await collect_orphans(index, await index.catalog.state())
    return done


async def embedder_width(index: Index) -> int:
    """Numbers in a vector of the present model: asked by embedding a word."""
    vectors = await index.embedder.embed(["width"])
    if len(vectors) != 1 or not vectors[0]:
        raise EmbedderError("The embedder did not send a vector.")
    return len(vectors[0])


async def use_model(index: Index, width: int) -> None:
    """Notes in the catalog that searches use the vectors of the present model."""
    model = index.embedder.model
    await index.catalog.set_meta(model=model, width=str(width), generation=generation_of(model, width))
