# SPDX-License-Identifier: Apache-2.0
"""python -m ferry.dynamo, with a dynamo that only stands in: its nixl_connect ends whoever imports it."""
import base64
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import zlib

import support
from ferry import dynamo
from ferry import nixl_connect as connect

sys.path.insert(0, os.path.join(support.HERE, os.pardir, "dynamo"))
import names  # noqa: E402

LIMIT = 60
FERRY = [sys.executable, "-m", "ferry.dynamo"]
WHICH = "import dynamo.nixl_connect as one; print(one.__name__)"
CHILD = f"""
import multiprocessing, os, subprocess, sys

def which(_=None):
    import dynamo.nixl_connect
    return dynamo.nixl_connect.__name__

if __name__ == "__main__":
    print(which())
    print(subprocess.run([sys.executable, "-c", {WHICH!r}], capture_output=True, text=True, check=True).stdout.strip())
    print(subprocess.run([sys.executable, "-m", "dynamo.user"], capture_output=True, text=True, check=True).stdout.strip())
    del os.environ["PYTHONPATH"]
    for method in ("spawn", "forkserver", "fork"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.map(which, [0])[0])
"""
TRANSFER = """
import asyncio, multiprocessing, sys
from dynamo import nixl_connect as connect

async def read(text, size):
    data = bytearray(size)
    metadata = connect.RdmaMetadata.model_validate_json(text)
    await (await connect.Connector().begin_read(metadata, connect.Descriptor(data))).wait_for_completion()
    return bytes(data[:3])

def reader(pipe):
    pipe.send(asyncio.run(read(*pipe.recv())))

async def main():
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=reader, args=(theirs,))
    process.start()
    offer = await connect.Connector().create_readable(connect.Descriptor(bytes(range(7, 107))))
    ours.send((offer.metadata().model_dump_json(), 100))
    await offer.wait_for_completion()
    print(list(ours.recv()))
    process.join()

if __name__ == "__main__":
    asyncio.run(main())
"""


class StandIn(unittest.TestCase):
    """A folder of the path with a part of dynamo, and an empty folder to run in."""

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="ferry-dynamo-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.there = self.root / "site"
        for name, text in (("nixl_connect", "raise SystemExit('the real one')"), ("user", WHICH)):
            (self.there / "dynamo" / name).mkdir(parents=True)
            (self.there / "dynamo" / name / "__init__.py").write_text("" if name == "user" else text)
        (self.there / "dynamo" / "user" / "__main__.py").write_text(WHICH)
        self.empty = self.root / "empty"
        self.empty.mkdir()
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join((os.environ["PYTHONPATH"], str(self.there)))}

    def run_command(self, *command, **more):
        more = {"cwd": self.empty, "env": self.environment, "timeout": LIMIT, **more}
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **more)

    def output(self, *command, **more):
        done = self.run_command(*command, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def refusal(self, status, *command, **more):
        """One sentence and no traceback."""
        done = self.run_command(*command, **more)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertRegex(done.stderr, r"\Aferry\.dynamo: [^\n]+\n\Z")
        return done.stderr

    def script(self, text):
        path = self.empty / "script.py"
        path.write_text(text)
        return path


class TestPlace(StandIn):
    def test_it_takes_the_place(self):
        done = self.run_command(sys.executable, "-c", WHICH)
        self.assertEqual((done.returncode, done.stderr), (1, "the real one\n"))
        self.assertEqual(self.output(*FERRY, sys.executable, "-c", WHICH), "ferry.nixl_connect\n")

    def test_the_rest_of_dynamo_stays(self):
        code = "import dynamo.user; from dynamo import nixl_connect; from dynamo.nixl_connect import Connector; " \
               "print(dynamo.user.__file__, nixl_connect.Connector is Connector)"
        self.assertEqual(self.output(*FERRY, sys.executable, "-c", code),
                         f"{self.there / 'dynamo' / 'user' / '__init__.py'} True\n")

    def test_it_is_the_module_itself(self):
        code = "import dynamo.nixl_connect, ferry.nixl_connect; print(dynamo.nixl_connect is ferry.nixl_connect)"
        self.assertEqual(self.output(*FERRY, sys.executable, "-c", code), "True\n")

    def test_the_children_have_it_too(self):
        """Those of multiprocessing even without PYTHONPATH, since it gives them the path."""
        self.assertEqual(self.output(*FERRY, sys.executable, self.script(CHILD)), "ferry.nixl_connect\n" * 6)

    def test_two_processes_exchange_memory(self):
        with tempfile.TemporaryDirectory(prefix="ferry-py-") as local:
            done = self.output(*FERRY, sys.executable, self.script(TRANSFER), env={**self.environment, "FERRY_LOCAL": local})
        self.assertEqual(done, "[7, 8, 9]\n")

    def test_the_folder_alone_serves_a_python_without_ferry(self):
        environment = {**self.environment, "PYTHONPATH": self.output(*FERRY, "--path").rstrip("\n")}
        with tempfile.TemporaryDirectory(prefix="ferry-py-") as local:
            done = self.output(sys.executable, "-S", self.script(TRANSFER), env={**environment, "FERRY_LOCAL": local})
        self.assertEqual(done, "[7, 8, 9]\n")


class TestCommand(StandIn):
    def test_arguments_go_through(self):
        given = ["", "a b", "--help", "--", "$HOME", "*"]
        code = "import json, sys; print(json.dumps(sys.argv[1:]))"
        self.assertEqual(json.loads(self.output(*FERRY, sys.executable, "-c", code, *given)), given)

    def test_the_exit_status_goes_through(self):
        for status in (0, 1, 77):
            self.assertEqual(self.run_command(*FERRY, "sh", "-c", f"exit {status}").returncode, status)

    def test_signals_reach_the_command(self):
        with subprocess.Popen([*FERRY, "sh", "-c", "echo $$; exec sleep 60"], cwd=self.empty, env=self.environment,
                              stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(int(process.stdout.readline()), process.pid)
            process.terminate()
            self.assertEqual(process.wait(LIMIT), -signal.SIGTERM)

    def test_no_signal_is_ignored_that_was_not(self):
        ignored = next(line for line in self.output(*FERRY, "cat", "/proc/self/status").splitlines() if "SigIgn" in line)
        self.assertEqual(int(ignored.split()[1], 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1), 0)

    def test_the_rest_of_the_path_is_kept(self):
        for before, after in ((None, dynamo.FOLDER), ("", dynamo.FOLDER), ("/a:/b", f"{dynamo.FOLDER}:/a:/b"),
                              (f"/a::{dynamo.FOLDER}:/b", f"{dynamo.FOLDER}:/a::/b")):
            environment = {"HOME": "/"} if before is None else {"HOME": "/", "PYTHONPATH": before}
            self.assertEqual(dynamo.environment(environment), {"HOME": "/", "PYTHONPATH": after})
        nested = self.output(*FERRY, *FERRY, "sh", "-c", "echo $PYTHONPATH")
        self.assertEqual(nested, f"{dynamo.FOLDER}:{self.environment['PYTHONPATH']}\n")

    def test_help(self):
        self.assertIn("python -m ferry.dynamo COMMAND", self.output(*FERRY, "--help"))

    def test_what_cannot_be_run(self):
        self.assertIn("no COMMAND", self.refusal(125, *FERRY))
        self.assertIn("--colour", self.refusal(125, *FERRY, "--colour", "red"))
        self.assertIn("--path", self.refusal(125, *FERRY, "--path", "red"))
        self.assertIn("no-such-command", self.refusal(127, *FERRY, "no-such-command"))
        self.assertIn("Permission denied", self.refusal(126, *FERRY, self.empty))


class TestRefusals(StandIn):
    def test_a_missing_library_is_told_before_the_command_runs(self):
        environment = {**self.environment, "FERRY_WORKER_LIBRARY": "/nonexistent/libferry-worker.so"}
        for arguments in (["touch", self.root / "ran"], ["--path"]):
            self.assertIn("libferry-worker cannot be loaded: /nonexistent/libferry-worker.so",
                          self.refusal(125, *FERRY, *arguments, env=environment))
        self.assertFalse((self.root / "ran").exists())

    def test_a_dynamo_of_one_folder_hides_it(self):
        (self.there / "dynamo" / "__init__.py").touch()
        self.assertIn(f"{self.there / 'dynamo' / '__init__.py'} makes dynamo", self.refusal(125, *FERRY, "true"))

    def test_a_dynamo_where_it_runs_hides_it(self):
        self.assertIn(f"{self.there / 'dynamo'} comes before PYTHONPATH", self.refusal(125, *FERRY, "true", cwd=self.there))
        shutil.rmtree(self.there / "dynamo" / "nixl_connect")
        self.assertEqual(self.output(*FERRY, sys.executable, "-c", WHICH, cwd=self.there), "ferry.nixl_connect\n")

    def test_metadata_of_nixl(self):
        """Such as come with media that Dynamo's frontend has decoded."""
        blob = zlib.compress(b"nixlSerDes|Agent")
        for text in ("b64:" + base64.b64encode(blob).decode(), blob.hex()):
            metadata = connect.RdmaMetadata(descriptors=[connect.SerializedDescriptor(ptr=1, size=3)], nixl_metadata=text,
                                            notification_key="k" * 36, operation_kind=1)
            with self.assertRaisesRegex(RuntimeError, "comes from NIXL, .*--no-frontend-decoding") as raised:
                connect.Connector().begin_read(metadata, connect.Descriptor(bytearray(3)))
            self.assertEqual(raised.exception.code, "invalid-metadata")
            with self.assertRaises(ValueError):
                connect.Remote(connect.Connector(), text)


class TestNames(unittest.TestCase):
    def test_none_of_upstream_is_missing(self):
        self.assertEqual(names.missing(names.recorded(), connect), [])

    def test_what_is_missing_is_found(self):
        wanted = {"Nobody": None, "Device.colour": None, "DeviceKind.CUDA": 3, "Descriptor._data_colour": None,
                  "RdmaMetadata.colour": None, "Device": ["metadata", "colour"], "Connector": [],
                  "Connector.create_readable": ["descriptors"], "PassiveOperation.metadata": ["hex_encode"]}
        self.assertEqual(len(names.missing(wanted, connect)), 7)

    def test_the_peer_of_an_operation(self):
        connector = connect.Connector()
        offer = connector.create_readable(connect.Descriptor(b"abc"))
        metadata = offer.metadata(hex_encode=True)
        with connector.begin_read(metadata, connect.Descriptor(bytearray(3))) as read:
            self.assertIs(read.remote.connection, connector)
            text = bytes.fromhex(metadata.nixl_metadata)
            for blob in (metadata.nixl_metadata, text):
                with connect.Remote(connector, blob) as remote:
                    self.assertEqual((remote.name, str(remote)), (json.loads(zlib.decompress(text))["worker"],) * 2)
                    self.assertEqual(read.remote.name, remote.name)
        self.assertEqual((connector.connector, connector.metadata), (connector, b""))
        connector.acquire_remote_ref(remote.name)
        self.assertFalse(connector.release_remote_ref(remote.name))

    def test_operations_are_made_by_their_classes_too(self):
        connector = connect.Connector()
        offer = connect.WritableOperation(connection=connector, local_descriptors=connect.Descriptor(bytearray(3)))
        write = connect.WriteOperation(connector, connect.Descriptor(b"abc"), offer.metadata())
        self.assertEqual(write.operation_kind, connect.OperationKind.WRITE)


if __name__ == "__main__":
    support.main()
