# SPDX-License-Identifier: Apache-2.0
"""The fields that the calls of the module take by name are those of the REST interface."""
import pathlib
import unittest

import support
from ferry import _fields

HERE = pathlib.Path(__file__).parent


class TestFields(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        yaml = support.needs("yaml")
        with open(HERE.parents[1] / "openapi" / "openapi.yaml", encoding="utf-8") as file:
            cls.document = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        cls.schemas = cls.document["components"]["schemas"]

    def test_of_operations(self):
        wanted = set(self.schemas["CreateOperation"]["properties"])
        # Arguments of their own; parts are "remote" in REST.
        wanted = wanted - {"kind", "descriptors", "remote_metadata", "remote_url", "remote"} | {"parts"}
        self.assertEqual(set(_fields.CreateFields.__annotations__), wanted)
        self.assertEqual(set(_fields.OfferFields.__annotations__) | set(_fields.BeginFields.__annotations__), wanted)

    def test_of_regions(self):
        wanted = set(self.schemas["CreateRegion"]["properties"]) - {"size", "name"}
        self.assertEqual(set(_fields.RegionFields.__annotations__), wanted)

    def test_of_lists(self):
        parameters = self.document["components"]["parameters"]
        names = [one["$ref"].rpartition("/")[2] for one in self.document["paths"]["/v1/operations"]["get"]["parameters"]]
        wanted = {parameters[name]["name"] for name in names if parameters[name]["in"] == "query"} - {"after"}
        self.assertEqual(set(_fields.OperationFilters.__annotations__), wanted)

    def test_of_words(self):
        for kind, name in ((_fields.Kind, "Kind"), (_fields.Status, "Status")):
            self.assertEqual(list(kind.__args__), self.schemas[name]["enum"])
        self.assertEqual(list(_fields.Transport.__args__), self.schemas["Transports"]["items"]["enum"])


if __name__ == "__main__":
    unittest.main()
