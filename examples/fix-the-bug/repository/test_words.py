import unittest

from words import count


class Count(unittest.TestCase):
    def test_words_are_counted(self):
        self.assertEqual(count("one two three"), 3)

    def test_an_empty_text_has_none(self):
        self.assertEqual(count(""), 0)


if __name__ == "__main__":
    unittest.main()
