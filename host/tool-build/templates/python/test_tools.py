import unittest

import tools
from agent_tool import Failure


class Greeting(unittest.TestCase):
    def test_a_guest_is_greeted_by_name(self):
        self.assertEqual(tools.{{tool}}("Ada"), {"text": "Hello, Ada!"})

    def test_a_blank_name_is_refused(self):
        with self.assertRaises(Failure) as raised:
            tools.{{tool}}(" ")
        self.assertEqual(raised.exception.code, "invalid-arguments")


if __name__ == "__main__":
    unittest.main()
