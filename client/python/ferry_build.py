# SPDX-License-Identifier: Apache-2.0
"""The build backend of the package (PEP 517): meson-python, in a folder that has pyproject.toml beside meson.build.

meson-python wants both in one folder, and the root of the repository has no pyproject.toml. So it works in a temporary
folder of links to what the root has. A source archive is that folder, with files in the place of links: meson-python
itself builds it, without this module.
"""
import contextlib
import io
import os
import pathlib
import re
import tarfile
import tempfile

import mesonpy
from mesonpy import get_requires_for_build_sdist, get_requires_for_build_wheel  # noqa: F401
import packaging.version
import pyproject_metadata

try:
    import tomllib
except ImportError:  # Python 3.9 and 3.10
    import tomli as tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@contextlib.contextmanager
def tree():
    """Works in the folder of links as long as the block lasts."""
    with tempfile.TemporaryDirectory() as folder:
        for path in ROOT.iterdir():
            if not path.name.startswith("build"):
                os.symlink(path, os.path.join(folder, path.name))
        os.environ["GIT_WORK_TREE"] = str(ROOT)  # to git, links in the place of files are changes
        os.chdir(folder)
        pathlib.Path("pyproject.toml").write_text(
            re.sub(r'build-backend = .*\nbackend-path = .*', 'build-backend = "mesonpy"', (HERE / "pyproject.toml").read_text()))
        try:
            yield
        finally:
            os.chdir(HERE)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    wheel_directory = os.path.abspath(wheel_directory)
    with tree():
        return mesonpy.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    sdist_directory = os.path.abspath(sdist_directory)
    with tree():
        metadata = pyproject_metadata.StandardMetadata.from_pyproject(tomllib.loads(pathlib.Path("pyproject.toml").read_text()))
        metadata.version = packaging.version.Version(re.search(r"version : '([^']+)'", pathlib.Path("meson.build").read_text())[1])
        metadata.dynamic = []
        root = f"ferry-{metadata.version}"
        with tarfile.open(os.path.join(sdist_directory, root + ".tar.gz"), "w:gz", dereference=True) as archive:
            for name in sorted(os.listdir()):
                archive.add(name, f"{root}/{name}", filter=wanted)
            text = bytes(metadata.as_rfc822())
            member = tarfile.TarInfo(f"{root}/PKG-INFO")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return root + ".tar.gz"


def wanted(member):
    """Neither the history nor what Python has compiled; of no user."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return None if os.path.basename(member.name) in (".git", "__pycache__") else member
