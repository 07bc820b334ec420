"""Descriptors of Protobuf: the message types of a descriptor set, or of a schema of a registry.

In: the bytes of a file from `protoc --descriptor_set_out --include_imports`, or a registry's address and a schema's id.
Out: a pool of descriptors, and the classes that parse messages. Needs protobuf (`pip install 'belvedere[protobuf]'`).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from belvedere.connectors.kafka.formats.registry import PREFIX, registry_answer
from belvedere.errors import fail
from belvedere.syntax.wording import did_you_mean

GOOGLE = "google/protobuf/"


@dataclass(frozen=True)
class ProtobufSchema:
    """A pool of descriptors, and the names of its files, each after the files that it imports."""

    pool: Any
    files: tuple[str, ...]

    def named(self, name: str | None) -> Any:
        """Return the descriptor of a message type; without a name the only one of the last file. Raises B6205."""
        last = list(self.pool.FindFileByName(self.files[-1]).message_types_by_name.values())
        if name is None and len(last) == 1:
            return last[0]
        names = [d.full_name for f in reversed(self.files) for d in _all_of(self.pool.FindFileByName(f))]
        hint = f'write `message = "{last[0].full_name if last else "shop.Order"}"` under [sources.NAME.tables.TABLE]'
        if name is None:
            raise fail("B6205", f"the schema has several kinds of messages: {', '.join(names)}"[:500], hint=hint)
        if name not in names:
            raise fail("B6205", f'the schema has no message "{name}"', hint=did_you_mean(name, names) or hint)
        return self.pool.FindMessageTypeByName(name)

    def at(self, file: str, path: Sequence[int]) -> Any:
        """Return the descriptor at a path of indexes within a file. Raises IndexError."""
        kinds, found = list(self.pool.FindFileByName(file).message_types_by_name.values()), None
        for number in path:
            found = kinds[number]
            kinds = list(found.nested_types)
        return found


def _all_of(file: Any) -> Iterator[Any]:
    kinds = list(file.message_types_by_name.values())
    while kinds:
        kind = kinds.pop(0)
        if not kind.GetOptions().map_entry:
            yield kind
            kinds += kind.nested_types


@cache
def of_file(content: bytes) -> ProtobufSchema:
    """Return the schema of a descriptor set. Raises B6205."""
    library()
    from google.protobuf.descriptor_pb2 import FileDescriptorSet  # comes with an extra

    hint = "create it by: protoc --descriptor_set_out=order.desc --include_imports order.proto"
    try:
        found = FileDescriptorSet.FromString(content)
        if not found.file:
            raise ValueError("it has no files")
        files = {f.name: f for f in found.file}
        return _pooled(tuple(files), files.get)
    except Exception as error:  # no descriptor set, or one without its imports
        raise fail(
            "B6205", "the Protobuf schema is not a descriptor set with its imports", detail=str(error), hint=hint
        ) from error


@cache
def of_registry(address: str, number: int) -> ProtobufSchema:
    """Return a schema of a registry, which never changes. Raises B6205."""
    library()
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # comes with an extra

    found: dict[str, Any] = {}

    def add(answer: Mapping[str, Any], name: str | None) -> None:
        file = FileDescriptorProto.FromString(base64.b64decode(answer["schema"], validate=True))
        file.name = name or file.name or "schema.proto"
        for part in answer.get("references") or ():
            if part["name"] not in found:
                where = f"/subjects/{part['subject']}/versions/{part['version']}?format=serialized"
                add(registry_answer(address, where, f'version {part["version"]} of "{part["subject"]}"'), part["name"])
        found[file.name] = file

    answer = registry_answer(address, f"/schemas/ids/{number}?format=serialized", f"schema {number}")
    try:
        add(answer, None)
        return _pooled(tuple(found), found.get)
    except (ValueError, TypeError, KeyError) as error:
        message = f"schema {number} of the registry cannot be understood as Protobuf"
        raise fail(
            "B6205", message, detail=str(error), hint='use a descriptor set instead: `schema = "order.desc"`'
        ) from error
    except Exception as error:
        if type(error).__name__ == "DecodeError":
            raise fail("B6205", f"schema {number} of the registry is not Protobuf", detail=str(error)) from error
        raise


def _pooled(names: Sequence[str], files: Callable[[str], Any]) -> ProtobufSchema:
    """Return a pool of the files and all that they import. The library contains Google's own files."""
    from google.protobuf.descriptor_pool import DescriptorPool  # comes with an extra

    pool, done = DescriptorPool(), dict[str, None]()

    def add(name: str, above: tuple[str, ...] = ()) -> None:
        if name in done or name in above:
            return
        file = files(name)
        if file is None and name.startswith(GOOGLE):
            made = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
            file = type(files(names[0])).FromString(made.DESCRIPTOR.serialized_pb)
        if file is None:
            raise ValueError(f'the imported file "{name}" is missing')
        for imported in file.dependency:
            add(imported, (*above, name))
        pool.AddSerializedFile(file.SerializeToString())
        done[name] = None

    for name in names:
        add(name)
    return ProtobufSchema(pool, tuple(n for n in done if n in names))


def unframed(value: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the message index (path to the message type in the schema's file) and the message. Raises ValueError.

    The index is its length and its numbers, in zigzag varints; a single zero is the index (0).
    """
    at = PREFIX

    def number() -> int:
        nonlocal at
        found = shift = 0
        while True:
            if at >= len(value) or shift > 28:
                raise ValueError("its message index leads to no message type")
            byte = value[at]
            at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)

    length = number()
    if not 0 <= length <= 100:
        raise ValueError("its message index leads to no message type")
    path = tuple(number() for _ in range(length)) or (0,)
    if min(path) < 0:
        raise ValueError("its message index leads to no message type")
    return path, value[at:]


def library() -> Any:
    """Return the module `google.protobuf.message_factory`. Raises B6205."""
    try:
        from google.protobuf import message_factory  # comes with an extra
    except ImportError as error:
        raise fail("B6205", "messages of Protobuf need protobuf", hint="pip install 'belvedere[protobuf]'") from error
    return message_factory
