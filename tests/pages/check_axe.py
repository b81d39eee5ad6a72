#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether axe-core finds a fault in a page of a worker, wide and narrow, light and dark: check_axe.py FERRYD AXE.JS PATH…"""
import os
import sys
import tempfile

import browser
import test_pages

RUN = """axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.map(
    ({ id, nodes }) => id + ': ' + nodes.slice(0, 3).map(({ html, failureSummary }) => html + ' ' + failureSummary).join(' | ')))"""


def main():
    ferryd, axe, *paths = sys.argv[1:]
    if not browser.find():
        print("skipped: no Chromium here (scripts/setup --all installs it)")
        return 77
    with open(axe, encoding="utf-8") as file:
        script = file.read()
    faults = []
    with tempfile.TemporaryDirectory(prefix="ferry-axe-") as folder:
        worker = test_pages.Worker(os.path.abspath(ferryd), folder, "worker-a")
        page = None
        try:
            page = browser.Browser(browser.find())
            for path in paths:
                for size, extent in test_pages.SIZES.items():
                    for dark in (False, True):
                        page.look(*extent, dark)
                        page.open(worker.url + path)
                        page.wait(f"location.pathname === '{path}' && document.readyState === 'complete'")
                        page.eval(script)
                        where = f"{path} {size} {'dark' if dark else 'light'}"
                        faults += [f"{where}: {fault}" for fault in page.eval(RUN)]
                        print("looked at", where, flush=True)
        finally:
            if page:
                page.close()
            worker.stop()
    print("\n".join(faults) or "no findings")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
