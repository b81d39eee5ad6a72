# SPDX-License-Identifier: Apache-2.0
"""The build backend of the package, as pip calls it."""
import pathlib
import tempfile
import unittest

import ferry_build


class TestBuild(unittest.TestCase):
    def test_metadata_comes_without_a_compiler(self):
        """PEP 517 and PEP 660: without these hooks pip builds everything to learn the name."""
        for prepare in (ferry_build.prepare_metadata_for_build_wheel, ferry_build.prepare_metadata_for_build_editable):
            with tempfile.TemporaryDirectory() as folder:
                info = pathlib.Path(folder, prepare(folder))
                self.assertRegex((info / "METADATA").read_text(), r"(?m)^Name: ferry$")
                self.assertIn("Tag: py3-none-", (info / "WHEEL").read_text())


if __name__ == "__main__":
    unittest.main()
