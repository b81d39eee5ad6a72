#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The names of dynamo.nixl_connect, with the parameters of what can be called, and whether Ferry's module has them.

    names.py [--record]

Compares the installed dynamo.nixl_connect with the file names-1.6.1.json, and ferry.nixl_connect with both; prints what
differs, and exits 1 then. --record writes the file instead.
"""
from __future__ import annotations

import enum
import inspect
import json
import pathlib
import sys
from types import ModuleType
from typing import Any, Iterator

RECORD = pathlib.Path(__file__).with_name("names-1.6.1.json")

# What programs of Dynamo use without being meant to. _data_size and _data_ref are of objects, not of the class.
PRIVATE = {"Connector._create_connection"}
OF_OBJECTS = {"Descriptor._data_ref", "Descriptor._data_size"}

# Constructors that programs do not call: of abstract classes, and of what Connector._create_connection makes.
NOT_CALLED = {"AbstractOperation", "ActiveOperation", "Connection", "PassiveOperation"}


def parameters(function: Any) -> list[str]:
    """Without self; those that may be left out end in "="."""
    found = [one for one in inspect.signature(function).parameters.values() if one.kind != one.VAR_KEYWORD]
    names = [one.name + ("" if one.default is one.empty else "=") for one in found]
    return names[1:] if names[:1] == ["self"] else names


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Name and parameters, or the number of an enum's member, or None of what is only read."""
    if issubclass(kind, enum.Enum):
        yield from ((name, int(member.value)) for name, member in kind.__members__.items())
    yield from ((name, None) for name in getattr(kind, "model_fields", ()))
    for name, value in dict(vars(kind)).items():  # a model grows while it is looked at
        value = getattr(value, "__func__", value)
        if f"{kind.__name__}.{name}" in PRIVATE or not name.startswith("_"):
            if inspect.isfunction(value) and not name.startswith("validate_"):  # pydantic calls those
                yield name, parameters(value)
            elif isinstance(value, property) or type(value).__name__ == "cached_property":
                yield name, None


def describe(module: ModuleType) -> dict[str, Any]:
    """Of a module that is written as upstream's."""
    names: dict[str, Any] = dict.fromkeys(OF_OBJECTS)
    for name, kind in vars(module).items():
        if isinstance(kind, type) and not name.startswith("_") and kind.__module__ == module.__name__:
            has_constructor = "__init__" in vars(kind) and name not in NOT_CALLED
            names[name] = parameters(kind.__init__) if has_constructor else None  # type: ignore[misc]
            names.update({f"{name}.{member}": value for member, value in members(kind)})
    return dict(sorted(names.items()))


def missing(wanted: dict[str, Any], ours: ModuleType) -> list[str]:
    """What a program written for wanted does not find in ours."""
    objects = {"Descriptor": ours.Descriptor(b"x")}
    models = {kind: set(inspect.signature(getattr(ours, kind)).parameters) for kind in ("RdmaMetadata", "SerializedDescriptor")}
    faults = []
    for name, value in wanted.items():
        of, _, member = name.partition(".")
        found: Any = getattr(ours, of, None)
        if member and member not in models.get(of, ()):
            found = getattr(objects[of] if name in OF_OBJECTS else found, member, None)
        if found is None:
            faults.append(f"{name} is missing")
        elif isinstance(value, int) and found != value:
            faults.append(f"{name} is {int(found)}, not {value}")
        elif isinstance(value, list):
            faults += differences(name, value, parameters(found))
    return faults


def differences(name: str, theirs: list[str], ours: list[str]) -> list[str]:
    """A call with their parameters, by position or by name, is one of ours as well."""
    beside = [parameter for parameter in ours[len(theirs):] if not parameter.endswith("=")]
    same = all(our in (their, their + "=") for their, our in zip(theirs, ours))
    if same and len(ours) >= len(theirs) and not beside:
        return []
    return [f"{name}({', '.join(theirs)}) is {name}({', '.join(ours)})"]


def recorded() -> dict[str, Any]:
    names: dict[str, Any] = json.loads(RECORD.read_text())
    return names


def main(arguments: list[str]) -> int:
    from dynamo import nixl_connect as upstream
    from ferry import nixl_connect as ours
    if upstream is ours:
        sys.exit("names.py: this is Ferry in the place of dynamo.nixl_connect: run it without")
    there = describe(upstream)
    if arguments == ["--record"]:
        lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in there.items())
        RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return 0
    known = recorded()
    faults = [f"{name} is not as in {RECORD.name}" for name in sorted(known.keys() | there.keys())
              if known.get(name, 0) != there.get(name, 0)]
    faults += missing(there, ours)
    print("\n".join(faults) or f"{len(there)} names")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
