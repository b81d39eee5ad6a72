#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meson install leaves a prefix in which everything works, wherever it is moved to.

test_install.py BUILD-DIRECTORY PREFIX
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, PREFIX = sys.argv[1:3]
LIMIT = 120


# meson test names the libraries of the build directory there.
os.environ.pop("LD_LIBRARY_PATH", None)


def run(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, timeout=LIMIT,
                          **more).stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="ferry-install-"))
        run("meson", "install", "--no-rebuild", "--quiet", "--destdir", cls.root, "-C", BUILD)
        cls.prefix = cls.root / PREFIX.lstrip("/")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.root)

    def found(self, pattern):
        files = sorted(self.prefix.glob(pattern))
        self.assertTrue(files, pattern)
        return files

    def worker(self):
        local = self.root / "local"
        local.mkdir(mode=0o700, exist_ok=True)
        process = subprocess.Popen([self.prefix / "bin" / "ferryd", "--listen", "127.0.0.1:0", "--local", local],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(process.communicate, timeout=LIMIT)
        self.addCleanup(process.terminate)
        return json.loads(process.stdout.readline())["http"][0]

    def test_the_programs_run(self):
        ferry = self.prefix / "bin" / "ferry"
        self.assertRegex(run(ferry, "-V"), r"\Aferry \d+\.\d+\.\d+( \([0-9a-f]{12,40}(-dirty)?\))?\n\Z")
        self.assertIn('"uptime_ms"', run(ferry, "get", "/v1/worker", "-u", self.worker()))

    def test_manuals_completions_and_headers_are_there(self):
        for page in ("man1/ferry.1", "man8/ferryd.8", "man3/ferry_get_operation.3", "man3/ferry_aio_new.3",
                     "man3/libferry.3", "man3/libferry-worker.3",
                     "man3/ferry_aio.3", "man3/ferry_worker_new.3", "man3/ferry_worker_operation_status.3",
                     "man3/ferry_worker_region_add.3"):
            self.found(f"share/man/{page}")
        for file in ("bash-completion/completions/ferry", "zsh/site-functions/_ferry", "fish/vendor_completions.d/ferry.fish"):
            self.assertIn("fetch", self.found(f"share/{file}")[0].read_text())
        for header in ("ferry", "aio", "error", "status"):
            self.found(f"include/ferry/{header}.h")
        for example in ("move.c", "file.c", "batch.c", "many.c", "offer.c", "read.c", "kv_cache.c", "serve.c", "move.py",
                        "rust/Cargo.toml", "README.md"):
            self.found(f"share/doc/ferry/examples/{example}")

    def test_python_finds_the_module(self):
        environment = {**os.environ, "PYTHONPATH": str(self.found("**/ferry/dynamo.py")[0].parent.parent),
                       "FERRY_WORKER_LIBRARY": str(self.found("**/libferry-worker.so.0")[0])}
        code = "import dynamo.nixl_connect; print(dynamo.nixl_connect.__name__)"
        self.assertEqual(run(sys.executable, "-m", "ferry.dynamo", sys.executable, "-c", code, env=environment,
                             cwd=self.root), "ferry.nixl_connect\n")

    def test_every_file_of_the_python_module_is_there(self):
        source = pathlib.Path(__file__).parents[2] / "client" / "python" / "ferry"
        wanted = {path.relative_to(source) for kind in ("*.py", "py.typed") for path in source.rglob(kind)}
        package = self.found("**/ferry/dynamo.py")[0].parent
        found = {path.relative_to(package) for kind in ("*.py", "py.typed") for path in package.rglob(kind)}
        # pip alone makes the commands, which run what the package has; meson install alone has the library elsewhere.
        self.assertEqual(found ^ wanted, {pathlib.Path("_programs.py"), pathlib.Path("_installed.py")})

    def test_only_what_pkg_config_can_link_is_installed(self):
        self.assertEqual([str(file) for file in self.prefix.glob("**/*.a")], [])

    def test_the_c_examples_are_built_by_pkg_config(self):
        directory = self.found("**/ferry.pc")[0].parent
        environment = {**os.environ, "PKG_CONFIG_PATH": str(directory), "PKG_CONFIG_SYSROOT_DIR": str(self.root)}
        flags = run("pkg-config", "--cflags", "--libs", "ferry", env=environment).split()
        program = self.root / "program"
        # The prefix is not where it will be in the end, so that the run path leads nowhere.
        library = self.found("**/libferry.so.0")[0].parent
        url = self.worker()
        for name in ("move", "many"):
            source, = self.found(f"share/doc/ferry/examples/{name}.c")
            run(os.environ.get("CC", "cc"), "-Wall", "-Wextra", "-Werror", "-o", program, source, *flags)
            self.assertTrue(run(program, url, url, env={**os.environ, "LD_LIBRARY_PATH": str(library)}).endswith("same\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
