#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of what the benchmark makes of samples: a wrong figure there would be believed."""
import io
import sys
import unittest

sys.dont_write_bytecode = True  # beside the sources

import machine  # noqa: E402
import report  # noqa: E402

COST = report.figure("m", "what it costs", "a", ("<=", 4))
SHARE = report.ratio("m", "its share", "a", "b", "the whole", (">=", 0.9))


def measured(row, **series):
    return report.evaluate(row, {f"m.{name}": values for name, values in series.items()}, {"m.a": "ms"})


class Ratios(unittest.TestCase):
    def test_samples_taken_in_pairs_are_compared_pair_by_pair(self):
        self.assertEqual(report.ratios([2, 30, 400], [1, 10, 100]), [2, 3, 4])

    def test_other_samples_are_compared_by_their_medians(self):
        self.assertEqual(report.ratios([2, 4, 6], [2]), [2])

    def test_a_reference_of_nothing_is_left_out(self):
        self.assertEqual(report.ratios([1, 2], [0, 2]), [1])
        self.assertIsNone(measured(SHARE._replace(mark=None), a=[1], b=[0]))

    def test_a_drifting_machine_does_not_move_the_ratio(self):
        theirs = [1, 2, 3, 4, 5, 6, 7]
        self.assertEqual(measured(SHARE, a=[x / 2 for x in theirs], b=theirs)["ratio"]["median"], 0.5)


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
        self.assertTrue(measured(SHARE, a=[1, 9, 10], b=[10, 10, 10])["holds"])
        self.assertFalse(measured(SHARE, a=[8, 8.9, 10], b=[10, 10, 10])["holds"])

    def test_a_mark_may_be_an_upper_bound(self):
        self.assertTrue(measured(COST, a=[1, 4, 9])["holds"])
        self.assertFalse(measured(COST, a=[1, 4.1, 9])["holds"])

    def test_a_mark_that_was_not_measured_is_told(self):
        result = measured(COST)
        self.assertNotIn("holds", result)
        self.assertEqual(report.found(result), "not measured")

    def test_a_line_without_mark_that_was_not_measured_is_left_out(self):
        self.assertIsNone(measured(COST._replace(mark=None)))

    def test_all_that_must_hold_has_a_mark(self):
        marked = {row.measurement for row in report.TABLE if row.mark}
        self.assertEqual(marked, {"bulk", "own", "writes", "threads", "bytes", "small", "inside", "batch", "scatter",
                                  "scale", "idle", "fetch", "content", "regions"})

    def test_no_two_lines_are_the_same(self):
        lines = [(row.measurement, report.label(row)) for row in report.TABLE]
        self.assertEqual(len(lines), len(set(lines)))


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


class Text(unittest.TestCase):
    def setUp(self):
        self.table, report.TABLE = report.TABLE, (COST, SHARE)

    def tearDown(self):
        report.TABLE = self.table

    def page(self, *values):
        runs = [{"date": "today", "notes": ["hm"], "results": [measured(COST, **({"a": [value]} if value else {}))]}
                for value in values]
        return report.markdown({"mode": "full", "machine": {}, "versions": {}, "state": "quiet",
                                "descriptions": {"m": "it"}, "runs": runs})

    def test_the_page_shows_each_run(self):
        self.assertIn("| what it costs | ≤ 4 ms | 1 [1–1] ms | 2 [2–2] ms | 3 [3–3] ms | yes |", self.page(1, 2, 3))

    def test_a_ratio_stands_before_what_it_is_made_of(self):
        self.assertEqual(report.found(measured(SHARE, a=[1, 2, 3], b=[2, 4, 4])), "0.5 [0.5–0.625]: 2 ms beside 4")

    def test_a_mark_holds_when_it_held_in_every_run(self):
        text = self.page(1, 9, 3)
        self.assertIn("| 9 [9–9] ms | 3 [3–3] ms | **no** |", text)
        self.assertIn("0 of 1 marks hold in every run.", text)

    def test_a_mark_missed_by_a_run_is_not_said_to_hold(self):
        text = self.page(1, None)
        self.assertIn("| 1 [1–1] ms | not measured | not measured |", text)
        self.assertIn("0 of 0 marks hold in every run; 1 more were not measured.", text)

    def test_what_gpu_check_wrote_stays(self):
        gpus = [f"\n## Memory on a GPU: {name}\n\n| bytes |\n" for name in ("one", "another")]
        self.assertEqual(report.sections_of_gpus(self.page(1) + gpus[0] + "\n## Notes\n\n- no\n" + gpus[1]), "".join(gpus))
        self.assertEqual(report.sections_of_gpus(self.page(1)), "")
        self.assertEqual(report.sections_of_gpus(""), "")

    def test_numbers_are_short(self):
        self.assertEqual([report.number(x) for x in (0, 0.12345, 12.345, 123.4, 12345.6)],
                         ["0", "0.123", "12.3", "123", "12,346"])

    def test_columns_are_aligned(self):
        report.TABLE = tuple(COST._replace(label=text) for text in ("x", "a long one"))
        out = io.StringIO()
        report.print_lines(report.lines_of([{"results": [measured(row, a=[1]) for row in report.TABLE]}]), out)
        heads, *lines = out.getvalue().splitlines()
        self.assertEqual({line.index("1 [1–1] ms") for line in lines}, {heads.index("measured")})


if __name__ == "__main__":
    unittest.main()
