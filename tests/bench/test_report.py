#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of what the benchmark makes of samples: a wrong figure there would be believed."""
import io
import sys
import unittest

sys.dont_write_bytecode = True  # beside the sources

import machine  # noqa: E402
import plot  # noqa: E402
import report  # noqa: E402


def measured(row, samples):
    return report.evaluate("m", row, samples, {"a": "ms"})


class Ratios(unittest.TestCase):
    def test_samples_taken_in_pairs_are_compared_pair_by_pair(self):
        self.assertEqual(report.ratios([2, 30, 400], [1, 10, 100]), [2, 3, 4])

    def test_other_samples_are_compared_by_their_medians(self):
        self.assertEqual(report.ratios([2, 4, 6], [2]), [2])

    def test_a_reference_of_nothing_is_left_out(self):
        self.assertEqual(report.ratios([1, 2], [0, 2]), [1])
        self.assertIsNone(measured(report.ratio("r", "a", "b"), {"a": [1], "b": [0]}))

    def test_a_drifting_machine_does_not_move_the_ratio(self):
        theirs = [1, 2, 3, 4, 5, 6, 7]
        row = report.ratio("r", "a", "b", (">=", 0.5), "b")
        self.assertEqual(measured(row, {"a": [x / 2 for x in theirs], "b": theirs})["ratio"]["median"], 0.5)


class Host(unittest.TestCase):
    def test_a_memory_whose_speed_falls_is_seen(self):
        memory = machine.Memory()
        memory.look()
        self.assertGreater(memory.rates[0], 0)
        memory.rates = [12.0, 9.1, 11.9]
        self.assertTrue(memory.is_steady())
        memory.rates.append(8.9)
        self.assertFalse(memory.is_steady())
        self.assertIn("8.9 to 12.0 GB/s", memory.describe())


class Marks(unittest.TestCase):
    def test_a_ratio_is_judged_by_its_median(self):
        row = report.ratio("r", "a", "b", (">=", 0.9), "b")
        self.assertTrue(measured(row, {"a": [1, 9, 10], "b": [10, 10, 10]})["holds"])
        self.assertFalse(measured(row, {"a": [8, 8.9, 10], "b": [10, 10, 10]})["holds"])

    def test_a_mark_may_be_an_upper_bound(self):
        row = report.figure("f", "a", ("<=", 4))
        self.assertTrue(measured(row, {"a": [1, 4, 9]})["holds"])
        self.assertFalse(measured(row, {"a": [1, 4.1, 9]})["holds"])

    def test_a_mark_that_is_missed_stands_beside_the_least_that_is_possible(self):
        row = report.ratio("r", "a", "b", ("<=", 4), "b", least="c")
        samples = {"a": [5], "b": [1], "c": [3.5]}
        self.assertEqual(report.cells(measured(row, samples))[-1], "**no** (bare libraries: 3.5)")
        self.assertEqual(report.cells(measured(row, dict(samples, a=[4])))[-1], "yes")

    def test_a_mark_that_was_not_measured_is_told(self):
        result = measured(report.figure("f", "a", ("<=", 4)), {})
        self.assertNotIn("holds", result)
        self.assertEqual(report.cells(result)[1], "not measured")

    def test_a_line_without_mark_that_was_not_measured_is_left_out(self):
        self.assertIsNone(measured(report.figure("f", "a"), {}))

    def test_marks_are_counted(self):
        rows = [report.figure("f", "a", ("<=", limit)) for limit in (1, 5)] + [report.figure("f", "b", ("<=", 1))]
        self.assertEqual(report.count_marks([measured(row, {"a": [3]}) for row in rows]), (1, 2, 1))

    def test_every_measurement_that_the_issues_mark_has_a_mark(self):
        marked = {name for name, rows in report.table().items() if any(row.mark for row in rows)}
        self.assertEqual(marked, {"bulk", "bytes", "own", "writes", "threads", "small", "inside", "wait", "scatter",
                                  "scale", "peers", "many", "batch", "interference", "control", "idle", "start",
                                  "regions", "fetch", "content"})

    def test_no_two_lines_of_a_measurement_are_the_same(self):
        for name, rows in report.table().items():
            lines = [(row.label, row.against) for row in rows]
            self.assertEqual(len(lines), len(set(lines)), name)


class Rounds(unittest.TestCase):
    rounds = [{"begin": i, "end": i + 1, "samples": [("a", i), ("b", -i)]} for i in range(5)]

    def test_a_disturbed_time_takes_the_rounds_that_it_touches(self):
        clean = report.clean_rounds(self.rounds, [(2.5, 3.5, 0.9, 0)])
        self.assertEqual([r["begin"] for r in clean], [0, 1, 4])

    def test_what_comes_before_all_rounds_stays(self):
        self.assertEqual(report.clean_rounds(self.rounds, [(0, 9, 0.9, 0)]), self.rounds[:1])

    def test_pairs_stay_pairs(self):
        samples = report.pool(report.clean_rounds(self.rounds, [(1.5, 2.5, 0.9, 0)]))
        self.assertEqual(samples, {"a": [0, 3, 4], "b": [0, -3, -4]})


class Derived(unittest.TestCase):
    def test_what_bulk_adds_is_never_negative(self):
        samples = {"interference.local.alone.operation": [10, 30], "interference.local.busy.operation": [25, 20]}
        report.derive(samples)
        self.assertEqual(samples["interference.local.added"], [15, 0])

    def test_nothing_is_made_of_nothing(self):
        samples = {}
        report.derive(samples)
        self.assertEqual(samples, {})


class Text(unittest.TestCase):
    def page(self, *values):
        row = report.figure("what it costs", "a", ("<=", 4))
        runs = [{"date": "today", "notes": ["hm"], "results": [measured(row, {"a": [value]} if value else {})]}
                for value in values]
        return report.markdown({"mode": "full", "machine": {}, "versions": {}, "state": "quiet",
                                "descriptions": {"m": "it"}, "runs": runs}, None)

    def test_the_page_shows_each_run(self):
        self.assertIn("| what it costs | ≤ 4 ms | 1 ms | 2 ms | 3 ms | yes |", self.page(1, 2, 3))

    def test_a_mark_holds_when_it_held_in_every_run(self):
        text = self.page(1, 9, 3)
        self.assertIn("| what it costs | ≤ 4 ms | 1 ms | 9 ms | 3 ms | **no** |", text)
        self.assertIn("0 of 1 marks hold in every run.", text)

    def test_a_mark_missed_by_a_run_is_not_said_to_hold(self):
        self.assertIn("| 1 ms | not measured | – |", self.page(1, None))

    def test_what_gpu_check_wrote_stays(self):
        gpus = [f"\n## Memory on a GPU: {name}\n\n| bytes |\n" for name in ("one", "another")]
        self.assertEqual(report.sections_of_gpus(self.page(1) + gpus[0] + "\n## Notes\n\n- no\n" + gpus[1]), "".join(gpus))
        self.assertEqual(report.sections_of_gpus(self.page(1)), "")
        self.assertEqual(report.sections_of_gpus(""), "")

    def test_numbers_are_short(self):
        self.assertEqual([report.number(x) for x in (0, 0.12345, 12.345, 123.4, 12345.6)],
                         ["0", "0.123", "12.3", "123", "12,346"])

    def test_columns_are_aligned(self):
        out = io.StringIO()
        report.print_rows([measured(report.figure(name, "a"), {"a": [1]}) for name in ("x", "a long one")], out)
        heads, *lines = out.getvalue().splitlines()
        self.assertEqual({line.index("1 ms") for line in lines}, {heads.index("measured")})


class Plot(unittest.TestCase):
    def test_a_curve_has_its_medians_in_order_of_size(self):
        samples = {"sizes.memcpy.65536": [3, 1, 2], "sizes.memcpy.4096": [7], "sizes.get.4096": [1]}
        self.assertEqual(plot.curve_points(samples, "sizes.memcpy"), [(4096, 7), (65536, 2)])

    def test_without_samples_there_is_no_plot(self):
        self.assertIsNone(plot.script({}, "x.svg"))

    def test_only_what_was_measured_is_plotted(self):
        text = plot.script({"sizes.memcpy.4096": [1]}, "x.svg")
        self.assertIn("memcpy", text)
        self.assertNotIn("ucp", text)


if __name__ == "__main__":
    unittest.main()
