# SPDX-License-Identifier: Apache-2.0
"""ferry.vllm: the connector's logic with real workers, on what stands in for vLLM's classes (scripts/test-vllm has vLLM)."""
import contextlib
import copy
import importlib
import json
import os
import sys
import tempfile
import types
import unittest
import unittest.mock

import support
import vllm_standin as vllm
from ferry import FerryError

vllm.install()
from ferry.vllm import handover, rank  # noqa: E402
from ferry.vllm.connector import FerryConnector  # noqa: E402

PROMPT = [(7 * i) % 251 for i in range(75)]  # four blocks and a part of one
OTHER = [(5 * i) % 251 for i in range(75)]


class Case(unittest.TestCase):
    def setUp(self):
        support.local_directory()

    def engine(self, **options):
        made = vllm.Engine(FerryConnector, **options)
        self.addCleanup(made.close)
        return made

    def assert_refused(self, decode, params, text, prompt=None):
        """The load fails, with this in the log, and nothing else happens."""
        id = f"refused {len(decode.requests)}"
        with self.assertLogs("vllm.ferry", "WARNING") as logs:
            self.assertFalse(decode.decode(id, prompt or PROMPT, params))
        self.assertIn(text, "\n".join(logs.output))
        decode.release(id)


class TestHandover(Case):
    def test_the_kv_of_a_prompt_arrives(self):
        prefill, decode = self.engine(), self.engine()
        params = prefill.prefill("p", PROMPT)
        self.assertTrue(params["do_remote_prefill"])
        self.assertEqual(params["remote_num_tokens"], len(PROMPT))
        json.dumps(params)
        self.assertEqual(decode.load("d", PROMPT, params), len(PROMPT))
        self.assertTrue(decode.until("loaded", "d"))
        self.assertTrue(decode.holds("d", PROMPT))
        self.assertTrue(prefill.until("sent", "p"))

    def test_a_step_that_computes_nothing_waits_for_the_end_of_a_transfer(self):
        prefill, decode = self.engine(), self.engine()
        params = prefill.prefill("p", PROMPT)
        ends = prefill.ranks[0]._rank._ends = unittest.mock.Mock()
        prefill.step({"p": 0})
        ends.poll.assert_not_called()
        prefill.step()
        ends.poll.assert_called_once_with(rank.WAIT_MS)  # the offer
        self.assertEqual(decode.load("d", PROMPT, params), len(PROMPT))
        decode.ranks[0]._rank._ends = ends
        ends.poll.side_effect = lambda _: decode.ranks[0]._rank._loads["d"].operations[0].wait(30)
        _, (result,) = decode.step()
        self.assertEqual(result.finished_recving, {"d"})  # in the very step that began it
        ends.poll.reset_mock()
        decode.step()
        ends.poll.assert_not_called()  # nothing runs

    def test_what_the_decode_has_in_its_cache_is_not_overwritten(self):
        prefill, decode = self.engine(), self.engine()
        params = prefill.prefill("p", PROMPT)
        self.assertEqual(decode.load("d", PROMPT, params, cached=32), len(PROMPT) - 32)
        decode.compute("d", OTHER[:32])  # for bytes of the prefill to be noticed
        self.assertTrue(decode.until("loaded", "d"))
        self.assertEqual(decode.ranks[0].get_kv_connector_stats().data["read_bytes"],
                         [handover.SEAL_SIZE + 3 * 3 * 4 * 16 * vllm.CONTENT])  # three blocks of five
        self.assertTrue(decode.holds("d", OTHER[:32]))
        self.assertTrue(decode.holds("d", PROMPT, first=32))

    def test_layouts(self):
        for options in ({"ratio": 2}, {"interleaved": True}, {"by_head": False}):
            with self.subTest(options):
                prefill, decode = self.engine(**options), self.engine(**options)
                self.assertTrue(decode.decode("d", PROMPT, prefill.prefill("p", PROMPT)))
                self.assertTrue(decode.holds("d", PROMPT))

    def test_two_groups_of_which_one_has_a_window(self):
        def engine():
            return self.engine(groups=[vllm.CacheGroup(vllm.FullAttentionSpec(), ["layer.0", "layer.2"]),
                                       vllm.CacheGroup(vllm.SlidingWindowSpec(20), ["layer.1"])])
        prefill, decode = engine(), engine()
        self.assertTrue(decode.decode("d", PROMPT, prefill.prefill("p", PROMPT)))
        self.assertIn(0, decode.held["d"][1])
        self.assertTrue(decode.holds("d", PROMPT))

    def test_a_rank_reads_from_one_or_several(self):
        for options in ({}, {"ratio": 2}, {"interleaved": True}):
            for there, here in ((2, 2), (2, 1), (4, 2), (4, 1)):
                with self.subTest(options, there=there, here=here):
                    prefill, decode = self.engine(tp=there, **options), self.engine(tp=here, **options)
                    self.assertTrue(decode.decode("d", PROMPT, prefill.prefill("p", PROMPT)))
                    self.assertTrue(decode.holds("d", PROMPT))
                    self.assertTrue(prefill.until("sent", "p"))

    def test_more_pieces_than_an_operation_may_have(self):
        with unittest.mock.patch.object(rank, "MAX_PIECES", 10):  # two layers of five blocks
            prefill, decode = self.engine(), self.engine()
            params = prefill.prefill("p", PROMPT)
        self.assertEqual(len(params["ferry"]["ranks"][0]), 2)
        self.assertTrue(decode.decode("d", PROMPT, params))
        self.assertTrue(decode.holds("d", PROMPT))
        self.assertTrue(prefill.until("sent", "p"))

    def test_the_beginning_of_a_longer_prompt(self):
        prefill, decode = self.engine(), self.engine()
        params = prefill.prefill("p", PROMPT)
        self.assertEqual(decode.load("d", PROMPT + OTHER, params), len(PROMPT))
        self.assertTrue(decode.until("loaded", "d"))
        self.assertTrue(decode.holds("d", PROMPT))


class TestEnds(Case):
    def test_a_second_use_fails(self):
        prefill, decode = self.engine(), self.engine()
        params = prefill.prefill("p", PROMPT)
        self.assertTrue(decode.decode("d", PROMPT, params))
        self.assertTrue(prefill.until("sent", "p"))
        self.assert_refused(decode, params, "could not be read, so vLLM computes the prompt here")

    def test_a_prefill_that_has_gone(self):
        prefill, decode = self.engine(), self.engine()
        params = prefill.prefill("p", PROMPT)
        prefill.close()
        self.assert_refused(decode, params, "could not be read, so vLLM computes the prompt here")
        self.assert_refused(decode, params, "could not be read, so vLLM computes the prompt here")

    def test_an_offer_that_nobody_reads(self):
        prefill, decode = self.engine(extra={"ttl_ms": 50}), self.engine()
        params = prefill.prefill("p", PROMPT)
        with self.assertLogs("vllm.ferry", "WARNING") as logs:
            prefill.until("sent", "p")
        self.assertIn("no decode has read the KV of request p", logs.output[0])
        self.assert_refused(decode, params, "could not be read")

    def test_blocks_stay_until_the_request_has_finished(self):
        """A prefill that goes on to generate: the offer was read meanwhile."""
        prefill, decode = self.engine(), self.engine()
        prefill.prefill("p", PROMPT, end=False)
        ranks = next(iter(prefill.scheduler._scheduler._offers.values())).metadata
        self.assertEqual(list(ranks), [0])
        prefill.end(*prefill.step({"p": 1}))
        self.assertEqual(prefill.ended["sent"], {})
        held, params = prefill.finish("p")
        self.assertTrue(held)
        self.assertTrue(decode.decode("d", PROMPT, params))
        self.assertTrue(prefill.until("sent", "p"))

    def test_an_aborted_prefill(self):
        prefill = self.engine()
        prefill.prefill("p", PROMPT, end=False)
        self.assertEqual(prefill.finish("p", vllm.Status.FINISHED_ABORTED), (True, None))
        prefill.until("sent", "p")

    def test_a_prefill_that_is_aborted_before_its_last_tokens(self):
        prefill = self.engine()
        prefill.add("p", PROMPT, {"do_remote_decode": True})
        prefill.allocate("p", len(PROMPT))
        prefill.scheduler.update_state_after_alloc(prefill.requests["p"], vllm.Blocks(prefill.held["p"]), 0)
        prefill.end(*prefill.step({"p": 10}))
        self.assertEqual(prefill.finish("p", vllm.Status.FINISHED_ABORTED), (False, None))

    def test_an_aborted_load_is_told_once_nothing_writes_its_blocks(self):
        prefill, decode = self.engine(), self.engine()
        params = prefill.prefill("p", PROMPT)
        decode.load("d", PROMPT, params)
        told, results = decode.step()
        self.assertEqual(decode.finish("d", vllm.Status.FINISHED_ABORTED), (False, None))
        decode.end(told, results)
        decode.until("loaded", "d")
        prefill.until("sent", "p")

    def test_preemption_ends_an_offer_before_its_blocks_are_used_again(self):
        prefill, decode = self.engine(), self.engine()
        prefill.prefill("p", PROMPT, end=False)
        operation = next(iter(prefill.ranks[0]._rank._offers["p"].operations))
        first = prefill.scheduler._scheduler._offers["p"].number
        self.assertFalse(operation.done)
        with self.assertLogs("vllm.ferry", "INFO"):
            prefill.end(*prefill.step(preempted=["p"]))
        self.assertTrue(operation.done)
        self.assertEqual(prefill.ended["sent"], {})
        prefill.prefill("p", PROMPT, end=False)  # vLLM begins it anew, and the first offer is not taken for the second
        self.assertNotEqual(prefill.scheduler._scheduler._offers["p"].number, first)
        prefill.end(*prefill.step({"p": 1}))
        _, params = prefill.finish("p")
        self.assertTrue(decode.decode("d", PROMPT, params))
        self.assertTrue(prefill.until("sent", "p"))

    def test_a_rank_that_cannot_offer_leaves_the_prompt_to_the_decode(self):
        prefill = self.engine(tp=2)
        with unittest.mock.patch.object(prefill.ranks[1]._rank.worker, "create", side_effect=OSError("no memory")), \
                self.assertLogs("vllm.ferry", "WARNING") as logs:
            params = prefill.prefill("p", PROMPT)
        self.assertIn("is not offered: no memory", logs.output[0])
        self.assertFalse(params["do_remote_prefill"])
        self.assertNotIn("ferry", params)
        prefill.until("sent", "p")


class TestWaiting(Case):
    def test_a_request_that_is_aborted_in_the_queue_declines_its_offer(self):
        for prompt in (PROMPT, [0]):  # one that vLLM rejects is then a prompt of one token, which it aborts at once
            prefill, decode = self.engine(), self.engine()
            decode.add("d", prompt, prefill.prefill("p", PROMPT))
            self.assertEqual(decode.finish("d", vllm.Status.FINISHED_ABORTED), (False, None))
            decode.end(*decode.step())
            prefill.until("sent", "p")
            self.assertEqual(prefill.ranks[0].get_kv_connector_stats().data["declined_offers"], [1])

    def test_a_request_that_loads_nothing_declines_its_offer(self):
        """vLLM may take none of the tokens that were matched, as for logprobs of the prompt."""
        prefill, decode = self.engine(), self.engine()
        request = decode.add("d", PROMPT, prefill.prefill("p", PROMPT))
        decode.allocate("d", len(PROMPT))
        decode.scheduler.update_state_after_alloc(request, vllm.Blocks(decode.held["d"]), 0)
        decode.end(*decode.step())
        prefill.until("sent", "p")

    def test_a_request_that_waits_keeps_its_offer(self):
        prefill, decode = self.engine(extra={"ttl_ms": 1500}), self.engine()
        params = prefill.prefill("p", PROMPT)
        operation = prefill.ranks[0]._rank._offers["p"].operations[0]
        request = decode.add("d", PROMPT, params)
        for _ in range(70):  # 3.5 s, more than twice the time of the offer
            with contextlib.suppress(TimeoutError, FerryError):
                operation.wait(0.05)
            decode.end(*decode.step())
        self.assertFalse(operation.done)
        decode.allocate("d", len(PROMPT))
        external, _ = decode.scheduler.get_num_new_matched_tokens(request, 0)
        decode.scheduler.update_state_after_alloc(request, vllm.Blocks(decode.held["d"]), external)
        self.assertTrue(decode.until("loaded", "d"))
        self.assertTrue(decode.holds("d", PROMPT))

    def test_renewals_have_an_end(self):
        prefill, decode = self.engine(extra={"ttl_ms": 200, "renew_max_ms": 500}), self.engine()
        decode.add("d", PROMPT, prefill.prefill("p", PROMPT))
        operation = prefill.ranks[0]._rank._offers["p"].operations[0]
        for _ in range(200):
            with contextlib.suppress(TimeoutError, FerryError):
                operation.wait(0.05)
            decode.end(*decode.step())
            if operation.done:
                break
        with self.assertRaisesRegex(FerryError, "expired"):
            operation.result()


class TestBelief(Case):
    def test_vllm_that_wants_another_number_of_tokens(self):
        """Which blocks those would be is not known."""
        prefill, decode = self.engine(), self.engine()
        request = decode.add("d", PROMPT, prefill.prefill("p", PROMPT))
        external, _ = decode.scheduler.get_num_new_matched_tokens(request, 32)
        decode.allocate("d", len(PROMPT), 32)
        with self.assertLogs("vllm.ferry", "WARNING") as logs:
            decode.scheduler.update_state_after_alloc(request, vllm.Blocks(decode.held["d"]), external - 16)
            self.assertFalse(decode.until("loaded", "d"))
        self.assertIn("vLLM wants 27 of their 75 tokens, and has 32", logs.output[0])

    def test_no_room_for_a_seal(self):
        prefill, decode = self.engine(), self.engine()
        for engine in (prefill, decode):
            engine.ranks[0]._rank._seals.take = unittest.mock.Mock(side_effect=FerryError("limit-reached", "no room"))
        params = self.engine().prefill("p", PROMPT)
        self.assert_refused(decode, params, "no room")
        with self.assertLogs("vllm.ferry", "WARNING"):
            self.assertFalse(prefill.prefill("p", PROMPT)["do_remote_prefill"])

    def test_forged_parameters(self):
        prefill, decode = self.engine(), self.engine()
        params = prefill.prefill("p", PROMPT)
        values = (None, -1, 0, 1e300, True, "x" * 9000, [], {}, [[]], [[1]], [["x"]], [[["x"]]], {"a": 1}, float("nan"))
        metadata = json.loads(params["ferry"]["ranks"][0][0])
        forged = [{"ferry": value} for value in values]
        for name in params["ferry"]:
            forged += [{"ferry": dict(params["ferry"], **{name: value})} for value in values]
        for text in ("http://127.0.0.1:1/v1/operations/op_x/metadata", "ferry://name/op_x", "file:///etc/passwd",
                     "[" * 4000, json.dumps(dict(metadata, more=1)), json.dumps(dict(metadata, operation_kind=2)),
                     json.dumps(dict(metadata, nixl_metadata="b64:AAAA")), json.dumps(dict(metadata, descriptors=[]))):
            forged.append({"ferry": dict(params["ferry"], ranks=[[text]])})
        forged.append({"ferry": dict(params["ferry"], ranks=params["ferry"]["ranks"] * 2)})
        forged.append({"ferry": dict(params["ferry"], ranks=[params["ferry"]["ranks"][0] * 2])})
        for one in forged:
            with self.subTest(str(one)[:200]):
                self.assert_refused(decode, dict(copy.deepcopy(params), **one), "Ferry: ")

    def test_the_offer_itself_says_of_what_it_is(self):
        """A client edits the parameters so that they look like those of its other prompt, rank or layers."""
        decode = self.engine()

        def offer(prompt, tp=1):
            return self.engine(tp=tp).prefill("p", prompt)["ferry"]
        digest = handover.prompt_digest(vllm.Request("r", PROMPT, None), len(PROMPT))
        two = offer(PROMPT, 2)
        with unittest.mock.patch.object(rank, "MAX_PIECES", 5):  # a layer each
            parts = offer(PROMPT)
        for name, forged in (("prompt", dict(offer(OTHER), prompt=digest)),
                             ("ranks in another order", dict(two, ranks=two["ranks"][::-1])),
                             ("parts in another order", dict(parts, ranks=[parts["ranks"][0][::-1]])),
                             ("two ranks of one", dict(two, ranks=[offer(PROMPT)["ranks"][0] for _ in range(2)]))):
            with self.subTest(name):
                self.assert_refused(decode, {"do_remote_prefill": True, "ferry": forged},
                                    "the offer is that of another prompt, cache or rank: its parameters were edited")

    def test_a_url_is_never_asked(self):
        """Ferry takes the URL of metadata as well, which would be the client's choice of a host."""
        with unittest.mock.patch.object(rank.Worker, "create") as create:
            for text in ("http://127.0.0.1:1/", " {}", "", '"x"'):
                with self.assertRaises(handover.Refused):
                    handover._check_metadata(text, True)
        create.assert_not_called()

    def test_a_url_in_metadata_is_asked_only_where_parameters_are_signed(self):
        """A worker that nothing else connects goes by HTTP to the URL of a peer, for a read and to decline alike."""
        with tempfile.NamedTemporaryFile() as key:
            key.write(b"x" * 16)
            key.flush()
            extra = {"key_file": key.name}
            prefill = self.engine(extra={**extra, "worker": {"listen": "127.0.0.1:0", "local": "off"}})
            decode, unsigned = self.engine(extra=extra), self.engine()
            params = prefill.prefill("p", PROMPT)
            self.assert_refused(unsigned, params, "the metadata of an offer name a URL")
            unsigned.add("aborted", [0], params)
            unsigned.finish("aborted", vllm.Status.FINISHED_ABORTED)
            self.assertEqual(unsigned.scheduler.build_connector_meta(vllm.Output()).declined, [])
            self.assertTrue(decode.decode("d", PROMPT, params))
            self.assertEqual(decode.ranks[0].get_kv_connector_stats().data["failed_reads"], [])
            self.assertTrue(decode.holds("d", PROMPT))

    def test_parameters_that_are_no_object(self):
        decode = self.engine()
        for params in ("x", 7, ["do_remote_prefill"]):
            with self.assertLogs("vllm.ferry", "WARNING"):
                self.assertEqual(decode.load(f"d{params}", PROMPT, params), 0)
            self.assertIsNone(decode.requests[f"d{params}"].kv_transfer_params)

    def test_parameters_of_another_prompt(self):
        prefill, decode = self.engine(), self.engine()
        params = prefill.prefill("p", PROMPT)
        self.assert_refused(decode, params, "they are of another prompt", OTHER)
        self.assert_refused(decode, params, "they are of a prompt of 75 tokens, and this one has 40", PROMPT[:40])

    def test_the_digest_has_all_that_the_kv_depends_on(self):
        request = vllm.Request("r", PROMPT, None)
        plain = handover.prompt_digest(request, 75)
        request.lora_request = types.SimpleNamespace(lora_name="x")
        adapted = handover.prompt_digest(request, 75)
        image = types.SimpleNamespace(identifier="image", mm_position=types.SimpleNamespace(offset=50, length=4))
        request.mm_features = [image]
        self.assertEqual(len({plain, adapted, handover.prompt_digest(request, 75)}), 3)
        request.lora_request = None
        self.assertEqual(handover.prompt_digest(request, 50), handover.prompt_digest(vllm.Request("r", PROMPT, None), 50))
        request.prompt_embeds = object()
        self.assertIsNone(handover.prompt_digest(request, 75))
        request.prompt_embeds = request.prompt_token_ids = None
        self.assertIsNone(handover.prompt_digest(request, 75))

    def test_a_key_file(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in "ab"]
            for path in paths:
                with open(path, "w", encoding="ascii") as file:
                    file.write(path * 16)
            prefill = self.engine(extra={"key_file": paths[0]})
            decode, stranger = (self.engine(extra={"key_file": path}) for path in paths)
            plain = self.engine()
            unsigned = plain.prefill("p", PROMPT)
            params = prefill.prefill("p", PROMPT)
            refusal = "no prefill with this key_file has signed them"
            self.assert_refused(stranger, params, refusal)
            self.assert_refused(decode, unsigned, refusal)
            self.assert_refused(decode, dict(params, ferry=dict(params["ferry"], tokens=60)), refusal)
            self.assertTrue(decode.decode("d", PROMPT, params))
            with open(paths[1], "w", encoding="ascii") as file:
                file.write("short")
            with self.assertRaisesRegex(ValueError, "a key needs at least 16"):
                self.engine(extra={"key_file": paths[1]})

    def test_a_cache_of_another_kind(self):
        prefill = self.engine()
        params = prefill.prefill("p", PROMPT)
        self.assert_refused(self.engine(model="n"), params, "the model of the prefill is 'm', and here it is 'n'")
        self.assert_refused(self.engine(heads=8), params, "the number of KV heads of the prefill is 4, and here it is 8")
        older = copy.deepcopy(params)
        older["ferry"]["version"] = 0
        self.assert_refused(self.engine(), older, "speaks version 0, and this one 1")
        self.assert_refused(self.engine(), {"do_remote_prefill": True, "remote_block_ids": [[1]], "remote_host": "h"},
                            "they are not of a FerryConnector")

    def test_ranks_that_do_not_fit(self):
        params = self.engine().prefill("p", PROMPT)
        self.assert_refused(self.engine(tp=2), params, "the prefill has a tensor parallel size of 1, and the decode of 2")
        params = self.engine(tp=2, by_head=False).prefill("p", PROMPT)
        self.assert_refused(self.engine(by_head=False), params, "the tensor parallel sizes must be equal")
        mla = {"groups": [vllm.CacheGroup(vllm.MLAAttentionSpec(), ["layer.0"])]}
        params = self.engine(tp=2, **mla).prefill("p", PROMPT)
        self.assert_refused(self.engine(**mla), params, "with MLA they must be equal")

    def test_roles(self):
        with self.assertLogs("vllm.ferry", "WARNING") as logs:
            consumer = self.engine(role="kv_consumer")
            consumer.add("p", PROMPT, {"do_remote_decode": True})
            consumer.scheduler.update_state_after_alloc(consumer.requests["p"], vllm.Blocks([[1]]), 0)
        self.assertIn("kv_role of this instance is kv_consumer", logs.output[0])
        params = self.engine().prefill("p", PROMPT)
        self.assert_refused(self.engine(role="kv_producer"), params, "kv_role of this instance is kv_producer")


class TestLoading(Case):
    def test_what_is_not_supported_is_said_at_the_start(self):
        parallel = types.SimpleNamespace(tensor_parallel_size=1, pipeline_parallel_size=2)
        for options, text in (({"parallel_config": parallel}, "pipeline_parallel_size"),
                              ({"speculative_config": object()}, "speculative decoding"),
                              ({"groups": [vllm.CacheGroup(vllm.MambaSpec(), ["layer.0"])]}, "layer.0 keeps its state as")):
            with self.subTest(text), self.assertRaisesRegex(NotImplementedError, text):
                self.engine(**options)

    def test_a_cache_that_lies_in_memory_in_another_way(self):
        engine = self.engine()
        view = engine.ranks[0].views["layer.1"]
        for shape, strides in (((40, 4, 16), (512, 128, 8)), ((39, 4, 16, 8), (512, 128, 8, 1)),
                               ((40, 4, 16, 8), (512, 130, 8, 1)), ((40, 4, 16, 8), (700, 128, 8, 1))):
            view.shape, view.strides = shape, strides
            with self.subTest(shape=shape, strides=strides), \
                    self.assertRaisesRegex(NotImplementedError, "does not know how the KV cache of layer.1 lies in memory"):
                engine.ranks[0].register_kv_caches(engine.ranks[0].views)

    def test_another_api_is_refused_with_a_sentence(self):
        base = sys.modules["vllm.distributed.kv_transfer.kv_connector.v1.base"]
        missing = unittest.mock.Mock(spec=[])
        for where, name, value in ((base, "KVConnectorTransferResults", missing), (vllm.Base, "handle_preemptions", missing)):
            before = getattr(where, name)
            delattr(where, name)
            try:
                with self.assertRaisesRegex(ImportError, f"ferry.vllm works with vLLM 0.32, and this vLLM is 0.32.0: .*{name}"):
                    importlib.reload(sys.modules["ferry.vllm.api"])
            finally:
                setattr(where, name, before)
                importlib.reload(sys.modules["ferry.vllm.api"])

    def test_an_untested_version_is_named(self):
        with unittest.mock.patch.object(sys.modules["vllm"], "__version__", "0.33.1"), \
                self.assertLogs("vllm.ferry", "WARNING") as logs:
            self.engine()
        self.assertIn("this is vLLM 0.33.1, and FerryConnector was tested with 0.32", logs.output[0])

    def test_the_entry_point_may_be_called_twice(self):
        registered = {}

        class Factory:
            @staticmethod
            def register_connector(name, module, cls):
                if name in registered:
                    raise ValueError(name)
                registered[name] = getattr(importlib.import_module(module), cls)

        factory = types.ModuleType("vllm.distributed.kv_transfer.kv_connector.factory")
        factory.KVConnectorFactory = Factory
        import ferry.vllm
        with unittest.mock.patch.dict(sys.modules, {factory.__name__: factory}):
            ferry.vllm.register()
            ferry.vllm.register()
            # A worker of Dynamo has a table of the connectors that it knows.
            table = types.ModuleType("dynamo.vllm.kv_connector_protocols")
            table.KV_CONNECTOR_PROTOCOLS, table.NixlConnectorProtocol = {}, object()
            with unittest.mock.patch.dict(sys.modules, {"dynamo.vllm": types.ModuleType("dynamo.vllm"), table.__name__: table}):
                ferry.vllm.register()
                del table.NixlConnectorProtocol
                with self.assertLogs("vllm.ferry", "WARNING"):
                    ferry.vllm.register()
        self.assertEqual(registered, {"FerryConnector": ferry.vllm.FerryConnector})
        self.assertEqual(list(table.KV_CONNECTOR_PROTOCOLS), ["FerryConnector"])


    def test_options_of_the_worker(self):
        engine = self.engine(extra={"worker": {"name": "prefill-0"}})
        self.assertEqual(engine.ranks[0]._rank.worker.name, "prefill-0")


class TestMetrics(Case):
    def test_reads_and_offers_are_counted(self):
        prefill, unread, decode = self.engine(), self.engine(extra={"ttl_ms": 50}), self.engine()
        params = prefill.prefill("p", PROMPT)
        decode.decode("d", PROMPT, params)
        prefill.until("sent", "p")
        unread.prefill("q", OTHER)
        with self.assertLogs("vllm.ferry", "WARNING"):
            unread.until("sent", "q")
            decode.decode("e", PROMPT, params)
        sent = prefill.ranks[0].get_kv_connector_stats().aggregate(unread.ranks[0].get_kv_connector_stats())
        read = decode.ranks[0].get_kv_connector_stats()
        self.assertIsNone(decode.ranks[0].get_kv_connector_stats())
        both = FerryConnector.build_kv_connector_stats(copy.deepcopy(sent.data)).aggregate(read)
        reduced = both.reduce()
        self.assertEqual({name: reduced[name] for name in ("Reads", "Offers read", "Failed reads", "Unread offers")},
                         {"Reads": 1, "Offers read": 1, "Failed reads": 1, "Unread offers": 1})
        self.assertEqual(both.data["read_bytes"], [handover.SEAL_SIZE + 3 * 5 * 4 * 16 * vllm.CONTENT])

        seen = []
        metric = types.SimpleNamespace(observe=lambda value: seen.append("observed"), inc=lambda value: seen.append("counted"))
        metrics = FerryConnector.build_prom_metrics(None, lambda **named: metric, ["engine"], {0: ["0"]})
        metrics.observe(both.data)
        self.assertEqual((seen.count("observed"), seen.count("counted")), (3, 2))


if __name__ == "__main__":
    unittest.main()
