# SPDX-License-Identifier: Apache-2.0
"""Usage: python -m ferry.dynamo COMMAND [ARGUMENT]...
       python -m ferry.dynamo --path

Runs COMMAND with Ferry in the place of dynamo.nixl_connect, in its process and in those that it starts:

    python -m ferry.dynamo python -m dynamo.vllm --model MODEL --embedding-transfer-mode nixl-read

  --path  print the folder that takes the place: put it first in PYTHONPATH where no command can be put in front, and for
          processes that start with an environment or a PYTHONPATH of their own
  --help  print this

Processes that exchange memory must all run with Ferry: metadata of NIXL are refused, and NIXL refuses Ferry's. Programs
that ignore PYTHONPATH (python -E, python -I) keep Dynamo's own module. Variables configure the worker inside a process:
FERRY_DATA_LISTEN and FERRY_ALLOW_PEER for peers on other machines; ferryd --help names the others.

The exit status is that of COMMAND; 125 when Ferry cannot take the place, 126 when COMMAND cannot be run, 127 when there
is no such command.
"""
from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Mapping
from typing import NoReturn

from ._library import library

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_dynamo")

# As env and nice have them.
CANNOT_PLACE, CANNOT_RUN, NOT_FOUND = 125, 126, 127


def main(arguments: list[str]) -> None:
    if not arguments:
        fail(CANNOT_PLACE, "there is no COMMAND (see --help)")
    if arguments[0] in ("-h", "--help"):
        print(__doc__, end="")
    elif arguments[0] == "--path" and len(arguments) == 1:
        check_place()
        print(FOLDER)
    elif arguments[0].startswith("-"):
        fail(CANNOT_PLACE, f"unknown option {arguments[0]} (see --help)")
    else:
        check_place()
        run(arguments)


def fail(status: int, why: str) -> NoReturn:
    print(f"ferry.dynamo: {why}", file=sys.stderr)
    sys.exit(status)


def check_place() -> None:
    """Ends the program with a sentence where COMMAND would not get Ferry, or a Ferry that does not work."""
    try:
        library()
    except ImportError as error:
        fail(CANNOT_PLACE, str(error))
    if os.pathsep in FOLDER:
        fail(CANNOT_PLACE, f"PYTHONPATH cannot name {FOLDER}, which has a {os.pathsep}: install Ferry elsewhere")
    sys.path.insert(1, FOLDER)  # as COMMAND will have it: behind the folder where it runs, before all others
    found = importlib.util.find_spec("dynamo")
    assert found is not None
    if found.origin is not None:
        fail(CANNOT_PLACE, f"{found.origin} makes dynamo a package of one folder, in which nothing takes the place of "
                           "dynamo.nixl_connect: remove it, or run with a Python that does not have it")
    for folder in found.submodule_search_locations or ():
        if os.path.exists(os.path.join(folder, "nixl_connect")):
            if not folder.startswith(FOLDER):
                fail(CANNOT_PLACE, f"{folder} comes before PYTHONPATH: run in another folder")
            return


def run(command: list[str]) -> NoReturn:
    """Becomes command, so that signals and the exit status are its own."""
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and what is ignored stays so
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, environment(os.environ))
    except FileNotFoundError as error:
        fail(NOT_FOUND, f"{command[0]}: {error.strerror}")
    except OSError as error:
        fail(CANNOT_RUN, f"{command[0]}: {error.strerror}")


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """inherited, with Ferry's part of dynamo before all that PYTHONPATH names."""
    rest = inherited.get("PYTHONPATH", "")
    folders = [FOLDER, *(folder for folder in rest.split(os.pathsep) if folder != FOLDER)] if rest else [FOLDER]
    return {**inherited, "PYTHONPATH": os.pathsep.join(folders)}


if __name__ == "__main__":
    main(sys.argv[1:])
