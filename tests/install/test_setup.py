#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What scripts/setup says is missing, where python3 is not the one that has the system's packages."""
import pathlib
import subprocess
import tempfile
import unittest

SETUP = pathlib.Path(__file__).parents[2] / "scripts" / "setup"
SYSTEM = "/usr/bin/python3"
LIMIT = 60


def has(module):
    return subprocess.run([SYSTEM, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


@unittest.skipUnless(pathlib.Path(SYSTEM).exists(), f"{SYSTEM} is missing")
class Setup(unittest.TestCase):
    def setUp(self):
        """A python3 without any module that is installed comes first in PATH."""
        directory = tempfile.TemporaryDirectory(prefix="ferry-setup-")
        self.addCleanup(directory.cleanup)
        self.python = pathlib.Path(directory.name) / "python3"
        self.python.write_text(f"""#!/bin/sh
case "$*" in *"import "*) exit 1 ;; esac
exec {SYSTEM} "$@"
""")
        self.python.chmod(0o755)

    def check(self, *flags):
        done = subprocess.run([SETUP, "--check", *flags], env={"PATH": f"{self.python.parent}:/usr/local/bin:/usr/bin:/bin"},
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.stderr, "")
        return done.stdout

    @unittest.skipUnless(has("numpy"), "the system's Python has no numpy")
    def test_a_module_that_another_python_has(self):
        """Tests run by the first python3, which no package would help."""
        missing = self.check("--all")
        self.assertIn(f"numpy ({SYSTEM} has it, {self.python} has not)", missing)
        self.assertNotIn("python3-numpy", missing)

    @unittest.skipUnless(has("yaml") and has("mesonbuild"), "the system's Python has no meson or no yaml")
    def test_what_builds_is_run_by_the_python_of_meson(self):
        self.assertNotIn("yaml", self.check())


if __name__ == "__main__":
    unittest.main(verbosity=2)
