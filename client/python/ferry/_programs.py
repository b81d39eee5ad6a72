# SPDX-License-Identifier: Apache-2.0
"""The commands ferry and ferryd of what pip installs: the programs in the package, in the place of this process."""
from __future__ import annotations

import os
import sys
from typing import NoReturn


def ferry() -> NoReturn:
    _run("ferry")


def ferryd() -> NoReturn:
    _run("ferryd")


def _run(name: str) -> NoReturn:
    os.execv(os.path.join(os.path.dirname(__file__), "bin", name), [name, *sys.argv[1:]])
