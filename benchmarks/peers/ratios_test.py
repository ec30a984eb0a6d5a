"""Tests of ratios.py."""

import unittest

import ratios
from ratios import CEILING, OURS, PEER, Figure

ROLES = {"us": OURS, "quick": PEER, "slow": PEER, "probe": CEILING}


def figure(*microseconds):
    return Figure(list(microseconds), [0.5] * len(microseconds))


class RatiosTest(unittest.TestCase):
    def test_an_all_reduce_passes_a_link_twice_as_often(self):
        # Each rank sends all but its own part, and all but one part again.
        self.assertEqual(ratios.bus_factor("all_reduce", 2), 1)
        self.assertEqual(ratios.bus_factor("all_reduce", 4), 1.5)
        self.assertEqual(ratios.bus_factor("reduce_scatter", 4), 0.75)
        self.assertEqual(ratios.bus_factor("all_gather", 2), 0.5)

    def test_bandwidths_are_bytes_over_time(self):
        # A million bytes in a millisecond are a billion in a second.
        self.assertAlmostEqual(ratios.algorithm_bandwidth(10**6, 1000), 1)
        self.assertAlmostEqual(
            ratios.bus_bandwidth("all_gather", 4, 10**6, 1000), 0.75
        )

    def test_a_figure_tells_median_and_range(self):
        self.assertEqual(ratios.figure_text(figure(3, 1, 2)), "2 (1 to 3)")
        self.assertEqual(ratios.figure_text(figure(1, 2)), "1.5 (1 to 2)")
        self.assertEqual(
            ratios.figure_text(figure(80021.4)), "80021 (80021 to 80021)"
        )
        self.assertEqual(ratios.figure_text(None), "-")

    def test_the_best_peer_has_the_least_median(self):
        figures = {
            "us": figure(1),
            "quick": figure(2, 90, 3),
            "slow": figure(4, 4, 4),
            "probe": figure(0.1),
        }
        self.assertEqual(ratios.best_peer(figures, ROLES), "quick")

    def test_a_peer_over_its_limit_is_not_the_best(self):
        figures = {
            "quick": Figure([1], [0], reason="over limit"),
            "slow": figure(4),
        }
        self.assertEqual(ratios.best_peer(figures, ROLES), "slow")
        self.assertEqual(ratios.figure_text(figures["quick"]), "over limit")

    def test_there_may_be_no_peer(self):
        self.assertIsNone(ratios.best_peer({"us": figure(1)}, ROLES))
        self.assertEqual(ratios.ratio_text(figure(1), None), "-")

    def test_a_ratio_below_one_is_ahead(self):
        self.assertEqual(ratios.ratio(figure(1), figure(2)), 0.5)
        self.assertEqual(ratios.ratio_text(figure(1), figure(2)), "0.50")

    def test_ranges_that_overlap_are_marked(self):
        self.assertEqual(
            ratios.ratio_text(figure(1, 2, 3), figure(3, 4, 5)), "0.50 ~"
        )
        self.assertEqual(
            ratios.ratio_text(figure(3, 4, 5), figure(1, 2, 2)), "2.00"
        )

    def test_a_ratio_of_leasts_leaves_out_what_interrupts(self):
        text = ratios.ratio_of_leasts_text(figure(3, 90, 80), figure(2, 3, 4))
        self.assertEqual(text, "1.50")
        self.assertEqual(ratios.ratio_of_leasts_text(figure(3), None), "-")

    def test_a_share_of_the_ceiling_is_speed_over_speed(self):
        self.assertEqual(ratios.share_text(figure(8), figure(10)), "80 %")
        self.assertEqual(ratios.share_text(None, figure(10)), "-")

    def test_sizes_have_the_largest_unit_that_divides_them(self):
        self.assertEqual(ratios.size_text(64 << 20), "64 MiB")
        self.assertEqual(ratios.size_text(256 << 10), "256 KiB")
        self.assertEqual(ratios.size_text(1536), "1536 B")

    def test_the_tables_have_a_row_for_each_cell_and_each_figure(self):
        cells = [("all_reduce", 1024), ("all_gather", 1 << 20)]
        figures = {
            cells[0]: {"us": figure(1), "quick": figure(2), "probe": figure(1)},
            cells[1]: {"us": figure(9), "slow": Figure(reason="failed")},
        }
        table = ratios.ratio_table(cells, figures, ROLES).splitlines()
        self.assertEqual(
            [text.strip() for text in table[2].split("|")[1:-1]],
            ["all_reduce", "1 KiB", "quick", "2 (2 to 2)", "1 (1 to 1)"]
            + ["0.50", "0.50", "100 %"],
        )
        self.assertEqual(
            [text.strip() for text in table[3].split("|")[1:-1]],
            ["all_gather", "1 MiB", "none", "-", "9 (9 to 9)", "-", "-", "-"],
        )
        every = ratios.figure_table(cells, figures, ROLES, 2).splitlines()
        self.assertEqual(len(every), 2 + 5)
        # 1024 bytes in 1 us, by two ranks.
        self.assertIn("1.02", every[2])
        self.assertIn("failed", every[6])


if __name__ == "__main__":
    unittest.main()
