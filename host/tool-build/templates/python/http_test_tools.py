import unittest

import tools
from agent_tool import Failure, config, http


class LookUp(unittest.TestCase):
    def setUp(self):
        config.values["endpoint"] = "https://parts.example.org"

    def test_a_part_is_looked_up(self):
        asked = []

        def answer(request):
            asked.append(request.url)
            return http.Response(200, {}, b'{"name": "hinge", "in_stock": 7, "shelf": 3}')

        http.double = answer
        self.assertEqual(tools.{{tool}}("A 1/2"), {"name": "hinge", "in_stock": 7})
        self.assertEqual(asked, ["https://parts.example.org/parts/A%201%2F2"])

    def test_what_the_server_refuses_is_told(self):
        for status, headers, code in [(404, {}, "not-found"), (401, {}, "denied"), (503, {"retry-after": "2"}, "unavailable")]:
            http.double = lambda request, status=status, headers=headers: http.Response(status, headers)
            with self.assertRaises(Failure) as raised:
                tools.{{tool}}("A-100")
            self.assertEqual(raised.exception.code, code)


if __name__ == "__main__":
    unittest.main()
