#!/usr/bin/env python3
"""self_test.py - the operators on a small piece of C, and rows found by text; nothing is built."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import mutate  # noqa: E402
from mutants import rows, source, suite  # noqa: E402

SNIPPET = r'''
#define TWICE(x) ((x) + (x)) \
    + 1
static const int table[] = { 1, 2 };
/* a < b */
static int sum(const int *a, int n, char *text)
{
    int t[4], total = -1; // a + 1
    assert(n > 0);
    for (int i = 0; i < n; i++)
        total += a[i] * 2;
    if (total == 7 && !text)
        return 1;
    put(text, "a < b", total);
    text[0] = 'x';
    return clamp(n + 1, total) + (int)sizeof(t[0]);
}
'''


def source_of(text):
    return source.Source("src/base/sum.c", text)


def changes(kind, text=SNIPPET):
    file = source_of(text)
    return [file.shown(c)[1] for c in file.changes() if c.kind == kind]


def row(**fields):
    return rows.make_row("here", fields)


class Operators(unittest.TestCase):
    def test_comparisons_are_moved_and_turned(self):
        self.assertEqual(changes("comparison"), [
            "for (int i = 0; i <= n; i++)", "if (total != 7 && !text)", "if (total == 7 || !text)",
            "if (total == 7 && text)"])

    def test_bounds_are_off_by_one(self):
        self.assertEqual(changes("off by one"), [
            "for (int i = 1; i < n; i++)", "for (int i = 0; i < n - 1; i++)", "for (int i = 0; i < n + 1; i++)",
            "return clamp(n , total) + (int)sizeof(t[0]);", "return clamp(n + 2, total) + (int)sizeof(t[0]);"])

    def test_signs_are_turned(self):
        self.assertEqual(changes("sign"), [
            "int t[4], total = 1; // a + 1", "total -= a[i] * 2;", "total += a[i] / 2;",
            "return clamp(n - 1, total) + (int)sizeof(t[0]);", "return clamp(n + 1, total) - (int)sizeof(t[0]);"])

    def test_statements_are_dropped_but_no_declaration_and_no_last_return(self):
        self.assertEqual(changes("drop"), [";", "if (0 && (total == 7 && !text))", ";", ";", ";"])
        file = source_of(SNIPPET)
        self.assertEqual([file.shown(c)[0] for c in file.changes() if c.kind == "drop"], [
            "total += a[i] * 2;", "if (total == 7 && !text)", "return 1;", 'put(text, "a < b", total);', "text[0] = 'x';"])

    def test_arguments_are_swapped_but_for_strings(self):
        self.assertEqual(changes("swap"), ["return clamp(total, n + 1) + (int)sizeof(t[0]);"])

    def test_constants_change_but_for_sizes_of_arrays(self):
        self.assertEqual(changes("constant"), [
            "int t[4], total = -0; // a + 1", "for (int i = 1; i < n; i++)", "total += a[i] * 3;",
            "if (total == 8 && !text)", "return 0;", "text[1] = 'x';", "return clamp(n + 0, total) + (int)sizeof(t[0]);"])

    def test_assertions_comments_strings_macros_and_tables_are_spared(self):
        for c in source_of(SNIPPET).changes():
            self.assertNotRegex(source_of(SNIPPET).shown(c)[0], "assert|TWICE|table")
        spared = SNIPPET.split("static int sum")[0]
        self.assertTrue(all(c.start > len(spared) for c in source_of(SNIPPET).changes()))

    def test_a_change_keeps_the_number_of_lines(self):
        file = source_of("void f(void)\n{\n    g(a,\n      b);\n    h();\n}\n")
        dropped = next(c for c in file.changes() if c.kind == "drop")
        self.assertEqual(file.changed(dropped), "void f(void)\n{\n    ;\n\n    h();\n}\n")

    def test_every_operator_is_drawn_and_a_seed_draws_the_same(self):
        files = {"src/base/sum.c": source_of(SNIPPET)}
        drawn = [m.key for m in mutate.draw(files, 1, None)]
        self.assertEqual(drawn, [m.key for m in mutate.draw(files, 1, None)])
        self.assertEqual(len(drawn), len(source_of(SNIPPET).changes()))
        self.assertNotEqual(drawn, [m.key for m in mutate.draw(files, 2, None)])
        self.assertEqual(list(mutate.draw(files, 1, "ops")), [])


class Rows(unittest.TestCase):
    other = source.Source("src/base/other.c", "int one(void) { return 1; }\nint two(void) { return 2; }\n")
    files = {"src/base/sum.c": source_of(SNIPPET), "src/base/other.c": other}

    def test_text_is_found_whatever_its_white_space_and_comments(self):
        loop = row(file="src/base/sum.c", old="for (int i=0; i < n;i++) total+=a[i]*2;", new=";")
        file, change, remark = rows.apply_row(loop, self.files)
        self.assertEqual((file.path, remark), ("src/base/sum.c", ""))
        self.assertEqual(file.line_of(change.start), 10)

    def test_text_that_has_moved_is_found_in_another_file(self):
        file, _, remark = rows.apply_row(row(file="src/base/gone.c", old="return 2;", new="return 3;"), self.files)
        self.assertEqual((file.path, remark), ("src/base/other.c", "moved from src/base/gone.c"))

    def test_a_row_whose_text_is_gone_no_longer_applies(self):
        gone = row(file="src/base/sum.c", old="return 9;", new=";")
        self.assertEqual(rows.apply_row(gone, self.files), (None, None, "its text is nowhere"))

    def test_text_that_is_there_twice_needs_its_function(self):
        twice = row(file="src/base/other.c", old="return", new="")
        self.assertEqual(rows.apply_row(twice, self.files)[2], "its text is there 2 times")
        twice = twice._replace(in_="two")
        self.assertEqual(rows.apply_row(twice, self.files)[0].path, "src/base/other.c")

    def test_a_drawn_mutant_is_known_as_the_equivalent_that_a_row_describes(self):
        _, change, _ = rows.apply_row(row(file="src/base/sum.c", old="i < n;", new="i <= n;", why="no reason"), self.files)
        file = self.files["src/base/sum.c"]
        drawn = next(c for c in file.changes() if c.kind == "comparison")
        self.assertEqual(mutate.Mutant(file, change).key, mutate.Mutant(file, drawn).key)

    def test_a_row_without_a_field_or_with_a_strange_one_is_refused(self):
        for text in ("file: a\nold: b\n", "file: a\nold: b\nnew: c\nwhy not\n", "file: a\nfile: b\n"):
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
                f.write(text)
                f.flush()
                self.assertRaises(rows.BadRow, rows.read_rows, f.name)

    def test_all_rows_of_the_tree_can_be_read(self):
        for path in mutate.ROWS.glob("*.txt"):
            for r in rows.read_rows(path):
                self.assertTrue(r.why if path.name == "equivalent.txt" else r.what, r.place)

    def test_every_row_of_the_tree_applies(self):
        files = mutate.read_files(mutate.ROOT)
        for path in mutate.ROWS.glob("*.txt"):
            for r in rows.read_rows(path):
                file, _, why = rows.apply_row(r, files)
                self.assertTrue(file, f"{r.place}: {why}")

    def test_every_directory_is_a_room_with_tests(self):
        for path in mutate.ROOT.glob("src/*/"):
            self.assertIn(path.name, suite.ROOMS)


if __name__ == "__main__":
    unittest.main()
