# SPDX-License-Identifier: Apache-2.0
"""The build backend of the package, as pip calls it."""
import os
import pathlib
import posixpath
import re
import tarfile
import tempfile
import unittest
import unittest.mock
import zipfile

import ferry_build


class TestBuild(unittest.TestCase):
    def test_metadata_comes_without_a_compiler(self):
        """PEP 517 and PEP 660: without these hooks pip builds everything to learn the name."""
        for prepare in (ferry_build.prepare_metadata_for_build_wheel, ferry_build.prepare_metadata_for_build_editable):
            with tempfile.TemporaryDirectory() as folder:
                info = pathlib.Path(folder, prepare(folder))
                self.assertRegex((info / "METADATA").read_text(), r"(?m)^Name: ferry$")
                self.assertIn("Tag: py3-none-", (info / "WHEEL").read_text())
                self.assertIn('Provides-Extra: vllm\n', (info / "METADATA").read_text())
                self.assertIn("[vllm.general_plugins]\nferry = ferry.vllm:register\n",
                              (info / "entry_points.txt").read_text())

    def test_a_wheel_has_the_folders_of_the_package(self):
        with tempfile.TemporaryDirectory() as folder:
            library = pathlib.Path(folder, "library")
            library.touch()
            with unittest.mock.patch.object(ferry_build, "library", return_value=str(library)):
                name = ferry_build.build_wheel(folder)
            with zipfile.ZipFile(pathlib.Path(folder, name)) as wheel:
                members = wheel.namelist()
        self.assertEqual({"ferry/worker.py", "ferry/vllm/connector.py", f"ferry/{ferry_build.SONAME}"} - set(members), set())
        self.assertEqual([name for name in members if name.endswith(".pyc")], [])

    def test_what_the_path_does_not_have_comes_from_the_index(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, PATH=folder):
            self.assertEqual(ferry_build.get_requires_for_build_wheel(), ["meson", "ninja", "PyYAML"])
            for name, missing in (("python3", ["meson", "ninja"]), ("ninja", ["meson"]), ("meson", [])):
                program = pathlib.Path(folder, name)
                for status in (1, 0):  # the system's meson does not find its modules in some virtual environments
                    program.write_text(f"#!/bin/sh\nexit {status}\n")
                    program.chmod(0o755)
                    found = ferry_build.get_requires_for_build_wheel()
                    self.assertEqual(len(found), len(missing) + status)
                self.assertEqual(found, missing)

    def test_the_wheel_has_every_module(self):
        package = pathlib.Path(ferry_build.HERE, "ferry")
        with tempfile.TemporaryDirectory() as folder, \
                unittest.mock.patch.object(ferry_build, "library", lambda folder: ferry_build.__file__):
            with zipfile.ZipFile(os.path.join(folder, ferry_build.build_wheel(folder))) as wheel:
                found = {name for name in wheel.namelist() if name.endswith(".py")}
        self.assertIn("ferry/_dynamo/dynamo/nixl_connect/__init__.py", found)
        self.assertEqual(found, {str(path.relative_to(package.parent)) for path in package.rglob("*.py")})

    def test_a_source_archive_has_what_its_build_names(self):
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(os.path.join(folder, ferry_build.build_sdist(folder))) as archive:
                members = set(archive.getnames())
                scripts = {name: archive.extractfile(name).read().decode() for name in members
                           if name.endswith("/meson.build")}
        named = {posixpath.normpath(posixpath.join(posixpath.dirname(script), path))
                 for script, text in scripts.items() if "/tests/" not in script
                 for path in re.findall(r"'(\.\./[^']+)'", text)}
        self.assertIn("scripts/embed", {name.split("/source/")[1] for name in named})
        self.assertEqual(named - members, set())


if __name__ == "__main__":
    unittest.main()
