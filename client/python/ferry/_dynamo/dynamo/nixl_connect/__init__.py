# SPDX-License-Identifier: Apache-2.0
"""dynamo.nixl_connect where PYTHONPATH begins with the folder _dynamo: is replaced by ferry.nixl_connect.

dynamo is a namespace package, of which each folder of the path has a part, so this part hides nothing else of Dynamo.
"""
import importlib.util
import logging
import pathlib
import sys


def _import_ferry() -> None:
    """Another Python than the one that has Ferry gets Ferry all the same: it consists of Python and of one library."""
    folder = pathlib.Path(__file__).parents[3]
    spec = importlib.util.spec_from_file_location("ferry", folder / "__init__.py",
                                                  submodule_search_locations=[str(folder)])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ferry"] = module
    spec.loader.exec_module(module)


try:
    import ferry
except ModuleNotFoundError as error:
    if error.name != "ferry":
        raise
    _import_ferry()
    import ferry
from ferry import nixl_connect

logging.getLogger(__name__).info("This is Ferry %s, from %s", ferry.__version__, nixl_connect.__file__)
sys.modules[__name__] = nixl_connect
