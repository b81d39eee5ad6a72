#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages of a worker in a headless Chromium: test_pages.py FERRYD [SCREENSHOT-FOLDER]

Exits with 77 where no Chromium is installed (scripts/setup --all installs it).
"""
import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import browser

TOKEN = "page-token-0123456789abcdef"
MANY = 200
ENDED = 10000
AXE = "axe-core@4.14.1"
MEMORY_MIB = 320
EVENTS_KEPT = 2048
SIZES = {"wide": (1280, 900), "narrow": (390, 844)}
EVIL = "<img src=x onerror=alert(1)>"


class Worker:
    def __init__(self, ferryd, folder, name, *flags):
        self.token = None
        self.log = open(os.path.join(folder, name + ".log"), "wb")
        self.process = subprocess.Popen([ferryd, "--listen", "127.0.0.1:0", "--name", name, "--local", folder, *flags],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.url = json.loads(self.process.stdout.readline())["http"][0]
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def call(self, method, path, body=None, status=None, **headers):
        headers = {key.replace("_", "-"): value for key, value in headers.items()}
        if self.token:
            headers.setdefault("Authorization", "Bearer " + self.token)
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(self.url + path, data=body, method=method, headers=headers)
        try:
            answer = self.opener.open(request, timeout=60)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            data = answer.read()
            if status:
                assert answer.status == status, (method, path, answer.status, data[:300])
            elif answer.status >= 400:
                raise AssertionError((method, path, answer.status, data[:300]))
            if answer.headers.get_content_type().endswith("json") and data:
                return json.loads(data)
            return answer.headers, data

    def region(self, size):
        return self.call("POST", "/v1/regions", {"size": size})["id"]

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


def transfers(worker, n, size=1 << 20):
    """So many offers of which a client over HTTP has taken a part."""
    region = worker.region(size)
    offers = [{"kind": "readable", "label": f"weights/layer-{i:03}", "descriptors": [{"region": region}]}
              for i in range(n)]
    made = worker.call("POST", "/v1/operations/batch?include=metadata", {"operations": offers})["results"]
    # By one connection: the first must not have ended for want of a client before the last has begun.
    connection = http.client.HTTPConnection(worker.url.removeprefix("http://"), timeout=60)
    for i, offer in enumerate(made):
        connection.request("GET", f"/v1/operations/{offer['id']}/content",
                           headers={"Authorization": "Bearer " + offer["metadata"]["notification_key"],
                                    "Range": f"bytes=0-{size * (i % 90 + 5) // 100}"})
        answer = connection.getresponse()
        assert answer.status == 206 and answer.read(), answer.status
    connection.close()
    return made


def end(worker, made):
    """Ends those of one call of transfers()."""
    for operation in made:
        worker.call("POST", f"/v1/operations/{operation['id']}/cancel")
    worker.call("DELETE", "/v1/regions/" + made[0]["descriptors"][0]["region"])


def failures(here, there, n):
    """Reads with metadata that another has used."""
    source, target = there.region(4096), here.region(4096)
    offer = there.call("POST", "/v1/operations?include=metadata",
                       {"kind": "readable", "descriptors": [{"region": source}]})
    for i in range(n + 1):
        here.call("POST", "/v1/operations", {"kind": "read", "label": EVIL if i == n else f"again {i}",
                                             "descriptors": [{"region": target}],
                                             "remote_metadata": offer["metadata"]}, Prefer="wait=20")


class Scene:
    def __init__(self, ferryd, folder, shots):
        self.folder, self.shots = folder, shots
        token = os.path.join(folder, "token")
        with open(token, "w", encoding="ascii") as file:
            file.write(TOKEN + "\n")
        with contextlib.ExitStack() as stack:  # what is there already ends when the rest does not start
            self.a = Worker(ferryd, folder, "worker-a", "--token-file", token, "--max-regions", "10",
                            "--memory-limit", f"{MEMORY_MIB}M")
            stack.callback(self.a.stop)
            self.a.token = TOKEN
            self.b = Worker(ferryd, folder, "worker-b")
            stack.callback(self.b.stop)
            self.browser = browser.Browser(browser.find())
            stack.callback(self.browser.close)
            self.browser.look(*SIZES["wide"], False)
            self.ends = stack.pop_all()

    def close(self):
        self.ends.close()

    def shoot(self, name, at=None):
        """In each size and colour, from the top or from the element whose id is at."""
        if not self.shots:
            return
        for size, extent in SIZES.items():
            for dark in (False, True):
                self.browser.look(*extent, dark)
                if at:
                    self.browser.eval(f"document.getElementById('{at}').scrollIntoView()")
                self.browser.screenshot(os.path.join(self.shots, f"{name}-{size}-{'dark' if dark else 'light'}.png"))
        self.browser.look(*SIZES["wide"], False)

    def fits(self):
        """Nothing is wider than the window, however narrow that is, and no table wider than its frame."""
        for width, height in SIZES.values():
            self.browser.look(width, height, False)
            self.browser.wait(f"innerWidth === {width} && [document.documentElement, ...document.querySelectorAll('.scroll')]"
                              ".every(box => box.scrollWidth <= box.clientWidth)")
        self.browser.look(*SIZES["wide"], False)


def enter(page, token):
    page.wait("document.getElementById('login') && !document.getElementById('login').hidden")
    page.eval(f"document.getElementById('token').value = {json.dumps(token)};"
              "document.getElementById('login').requestSubmit()")


def a_wrong_token_is_asked_for_again(scene):
    page = scene.browser
    page.open(scene.a.url + "/")
    for token in ("wrong", "no header can have this…"):
        page.wait("document.getElementById('refused') !== null")
        page.eval("document.getElementById('refused').textContent = ''")
        enter(page, token)
        page.wait("document.getElementById('refused').textContent.includes('not the token')")
    assert page.eval("document.getElementById('main').hidden")
    scene.shoot("wrong-token")


def the_token_opens_the_page_and_stays_in_memory(scene):
    page = scene.browser
    enter(page, TOKEN)
    page.wait("document.body.className === 'live'")
    assert page.eval("document.getElementById('name').textContent") == "worker-a"
    about = page.wait("document.getElementById('about').textContent")
    page.wait(f"document.getElementById('about').textContent !== {json.dumps(about)}")  # it is up for longer
    assert page.eval("localStorage.length + sessionStorage.length + document.cookie.length") == 0
    assert TOKEN not in page.eval("location.href + document.documentElement.outerHTML")


ROWS = "[...document.querySelectorAll('#transfers tbody tr')]"


def status_of(worker, operation):
    return worker.call("GET", "/v1/operations/" + operation["id"])["status"]


def transfers_appear_and_are_cancelled_when_that_is_confirmed(scene):
    page, made = scene.browser, transfers(scene.a, 2)
    page.wait(f"{ROWS}.length === 2")
    page.wait("(b => b.value > 0.04 * b.max && b.value < 0.07 * b.max)(document.querySelector('#transfers progress'))")
    page.point("#transfers tbody button", press=True)
    page.wait("document.getElementById('ask').open")
    text = page.eval("document.getElementById('ask').textContent")
    assert made[0]["id"] in text and "weights/layer-000" in text and "readable" in text, text
    scene.shoot("ask")
    page.point("#ask button[value=no]", press=True)
    page.wait("!document.getElementById('ask').open")
    page.eval("askToCancel(operations.values().next().value)")
    page.call("Input.dispatchKeyEvent", type="keyDown", key="Escape", code="Escape", windowsVirtualKeyCode=27)
    page.wait("!document.getElementById('ask').open")
    assert status_of(scene.a, made[0]) == "IN_PROGRESS"
    page.point("#transfers tbody button", press=True)
    page.wait("document.getElementById('ask').open")
    page.point("#ask button[value=yes]", press=True)
    page.point("h1")
    page.wait(f"{ROWS}.length === 1")
    assert status_of(scene.a, made[0]) == "CANCELLED"
    scene.a.call("POST", f"/v1/operations/{made[1]['id']}/cancel")
    page.wait(f"{ROWS}.length === 0")


def rows_stay_under_the_pointer(scene):
    page, made = scene.browser, transfers(scene.a, 3)
    page.wait(f"{ROWS}.length === 3")
    place = page.point("#transfers tbody tr:nth-child(2) button")
    there = f"document.elementFromPoint({place['x']}, {place['y']}).closest('tr').innerText"
    assert made[1]["id"] in page.eval(there)
    page.wait("over")
    scene.a.call("POST", f"/v1/operations/{made[0]['id']}/cancel")
    page.wait("document.querySelector('#transfers tbody tr').className === 'gone'")
    more = transfers(scene.a, 1)
    page.wait(f"operations.has('{more[0]['id']}')")
    page.wait("!dirty")  # it has been shown since
    assert made[1]["id"] in page.eval(there)
    assert page.eval(f"{ROWS}.length") == 3
    page.eval("askToCancel(operations.values().next().value)")  # the dialog holds them as well
    page.point("h1")
    page.wait("!over && !dirty")
    assert page.eval(f"{ROWS}.length") == 3
    page.eval("document.getElementById('ask').close()")
    page.wait(f"{ROWS}.length === 3 && !{ROWS}.some(row => row.innerText.includes('{made[0]['id']}'))")
    end(scene.a, made)
    end(scene.a, more)
    page.wait(f"{ROWS}.length === 0")


def a_refused_cancel_says_why_in_its_row(scene):
    page, made = scene.browser, transfers(scene.a, 2)
    page.wait(f"{ROWS}.length === 2")
    page.eval("window.real = fetch; window.fetch = (path, options) => !path.endsWith('/cancel') ? real(path, options)"
              " : Promise.resolve(new Response(JSON.stringify({ detail: 'not with this token' }), { status: 409 }))")
    page.point("#transfers tbody button", press=True)
    page.point("#ask button[value=yes]", press=True)
    page.wait(f"{ROWS}[0].innerText.includes('Not cancelled: not with this token')")
    page.eval("window.fetch = real")
    # One that ends before it is confirmed is told, too, and stays until that was seen.
    page.point("#transfers tbody tr:nth-child(2) button", press=True)
    page.wait("document.getElementById('ask').open")
    key = made[1]["metadata"]["notification_key"]
    scene.a.call("GET", f"/v1/operations/{made[1]['id']}/content", Authorization="Bearer " + key)
    assert scene.a.call("GET", f"/v1/operations/{made[1]['id']}?wait_ms=20000")["status"] == "COMPLETE"
    page.point("#ask button[value=yes]", press=True)
    page.point("h1")
    page.wait(f"{ROWS}.some(row => row.innerText.includes('{made[1]['id']}')"
              " && row.innerText.includes('It had already ended: COMPLETE'))")
    scene.shoot("refused")
    page.eval("refusals.clear()")
    end(scene.a, made)
    page.wait(f"{ROWS}.length === 0")


def what_moved_before_the_page_was_opened_is_in_the_graph(scene):
    page, size = scene.browser, 3 << 20
    page.open("about:blank")
    source, target = scene.b.region(size), scene.a.region(size)
    offer = scene.b.call("POST", "/v1/operations?include=metadata",
                         {"kind": "readable", "descriptors": [{"region": source}]})
    scene.a.call("POST", "/v1/operations", {"kind": "read", "descriptors": [{"region": target}],
                                            "remote_metadata": offer["metadata"]}, Prefer="wait=20")
    page.open(scene.a.url + "/")
    enter(page, TOKEN)
    page.wait(f"throughput.received.reduce((a, b) => a + b, 0) === {size}")
    page.wait("!/peak.0.B/.test(document.getElementById('peak').textContent)")
    page.wait("document.getElementById('since').textContent === 'known since ' + clock(throughput.since)")
    scene.shoot("history")
    for worker, region in ((scene.b, source), (scene.a, target)):
        worker.call("DELETE", "/v1/regions/" + region)


def the_graph_has_a_scale_a_unit_and_a_beginning(scene):
    drawn = scene.browser.eval("""(() => {
        throughput = { since: '2026-05-04T10:00:00.250Z', received: [0, 3 << 20, 0], sent: [0, 0, 4096] };
        draw();
        const text = (id) => document.getElementById(id).textContent.replaceAll('\\u00a0', ' ');
        const path = (way) => document.querySelector('#graph .' + way).getAttribute('d');
        return [...['scale-top', 'scale-half', 'peak', 'received', 'sent'].map(text), path('received'), path('sent'),
                document.querySelector('#graph .unknown').getAttribute('width'), document.getElementById('unknown').style.width];
    })()""")
    assert drawn == ["4.0 MiB/s", "2.0 MiB/s", "peak 3.0 MiB/s", "received 0 B/s", "sent 4.0 KiB/s",
                     "M298 59.0L299 15.5L300 59.0", "M298 59.0L299 59.0L300 58.9", "297", "99%"], drawn


def every_use_of_an_offer_is_counted(scene):
    page, size, sent = scene.browser, 5000, "throughput.sent.reduce((a, b) => a + b, 0)"
    region = scene.a.region(size)
    offer = scene.a.call("POST", "/v1/operations?include=metadata",
                         {"kind": "readable", "uses": 3, "descriptors": [{"region": region}]})
    page.wait(f"Date.parse(throughput.since) + 1000 * throughput.sent.length > {time.time() * 1000}")
    before = page.eval(sent)
    for use in (1, 2):
        scene.a.call("GET", f"/v1/operations/{offer['id']}/content",
                     Authorization="Bearer " + offer["metadata"]["notification_key"])
        page.wait(f"{sent} === {before + use * size}")
    scene.a.call("POST", f"/v1/operations/{offer['id']}/cancel")
    scene.a.call("DELETE", "/v1/regions/" + region)
    page.wait("document.querySelectorAll('#transfers tbody tr').length === 0")


def counted(code, column):
    """What the table of the codes says in a column; 0 where it has no such row."""
    return ("Number(([...document.querySelectorAll('#codes tbody tr')].find(row => row.cells[0].innerText"
            f" === '{code}') || {{ cells: [] }}).cells[{column}]?.innerText || 0)")


def what_a_client_names_is_text(scene):
    page = scene.browser
    failures(scene.a, scene.b, 3)
    page.wait("document.querySelectorAll('#failures tbody tr').length >= 3")
    page.wait(f"document.getElementById('failures').textContent.includes({json.dumps(EVIL)})")
    assert page.eval("document.querySelectorAll('main img').length") == 0
    page.wait(counted("already-claimed", 1) + " >= 3")  # beside the requests, of which none ended by it
    assert page.eval(counted("already-claimed", 2)) == 0
    page.wait("document.querySelectorAll('#peers tbody tr').length === 1")
    known = page.eval("failures.length")
    page.eval("happened({ time: failures[0].ended_at, operation: failures[0] })")  # one that ended at once comes twice
    assert page.eval("failures.length") == known


def ended_transfers_say_how_they_went(scene):
    page, size = scene.browser, 2 << 20
    label = "\u202eshuffled\u001b \u05e9\u05dc\u05d5\u05dd"
    source, target = scene.b.region(size), scene.a.region(size)
    offer = scene.b.call("POST", "/v1/operations?include=metadata",
                         {"kind": "readable", "descriptors": [{"region": source}]})
    read = scene.a.call("POST", "/v1/operations", {"kind": "read", "label": label, "descriptors": [{"region": target}],
                                                   "remote_metadata": offer["metadata"]}, Prefer="wait=20")
    row = page.wait(f"(row => row && [...row.cells].map(cell => cell.innerText.replaceAll('\\u00a0', ' ')))"
                    f"([...document.querySelectorAll('#ended tbody tr')].find(row => row.innerText.includes('{read['id']}')))")
    assert row[0].startswith(r"\u202eshuffled\u001b"), row
    assert row[1] == "complete" and row[3:6] == ["read", "worker-b", "2.0 MiB"] and row[7] == "shm", row
    assert row[6].endswith("/s"), row
    today, before = (page.eval(f"clock('{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(at))}')")
                     for at in (time.time(), time.time() - 2 * 86400))
    assert row[2] == page.eval(f"clock('{read['ended_at']}')") and len(before) > len(today) + 5, (row[2], today, before)
    # What the page knew is shown of one that the worker has forgotten.
    link = f"#ended a[href='/v1/operations/{read['id']}']"
    for known in (True, False):
        page.point(link, press=True)
        page.wait("document.getElementById('json').open")
        shown = json.loads(page.eval("document.getElementById('json-text').textContent"))
        assert shown["id"] == read["id"] and shown["bytes_done"] == size and ("descriptors" in shown) == known, shown
        assert bool(page.eval("document.getElementById('json-note').textContent")) != known
        page.point("#json button", press=True)
        page.wait("!document.getElementById('json').open")
        page.point("h1")
        scene.a.call("DELETE", f"/v1/operations/{read['id']}", status=204 if known else 410)
    for worker, region in ((scene.b, source), (scene.a, target)):
        worker.call("DELETE", "/v1/regions/" + region)


def requests_that_were_refused_are_counted_by_code(scene):
    page, cell = scene.browser, counted("not-found", 2)
    before = page.eval(cell)
    for _ in range(3):
        scene.a.call("GET", "/v1/regions/rgn_0000000000000001", status=404)
    page.wait(f"{cell} === {before + 3}")


def regions_come_by_size_and_offers_by_time_left(scene):
    page = scene.browser
    made = [scene.a.call("POST", "/v1/regions", {"size": size << 20, "name": f"by-size-{size}"})["id"] for size in (1, 3, 2)]
    offers = [scene.a.call("POST", "/v1/operations", {"kind": "writable", "label": f"left-{i}", **more,
                                                      "descriptors": [{"region": made[0]}]})
              for i, more in enumerate(({"uses": "unlimited", "ttl_ms": 500000}, {"ttl_ms": 90000}, {"ttl_ms": 40000}))]
    names = "[...document.querySelectorAll('#{} tbody bdi')].map(e => e.textContent).filter(t => t.startsWith('{}'))"
    page.wait(names.format("regions", "by-size") + ".join() === 'by-size-3,by-size-2,by-size-1'")
    page.wait(names.format("offers", "left") + ".join() === 'left-2,left-1,left-0'")
    cells = "[...document.querySelector(`#{} a[href$='{}']`).closest('tr').cells].map(cell => cell.innerText)"
    region = page.wait("(cells => cells[4] === '3 operations' && cells)(" + cells.format("regions", made[0]) + ")")
    assert region[1:4] == ["1.0\u00a0MiB", "cpu", "ready"] and region[5].endswith(" s"), region
    offer = page.eval(cells.format("offers", offers[0]["id"]))
    assert offer[3] == "0 of unlimited" and offer[4].startswith(("7 min", "8 min")), offer
    page.eval(f"document.querySelector(`#regions a[href$='{made[1]}']`).click()")
    page.wait("document.getElementById('json').open")
    assert json.loads(page.eval("document.getElementById('json-text').textContent"))["size"] == 3 << 20
    page.eval("document.getElementById('json').close()")
    page.point("h1")
    for offer in offers:
        scene.a.call("DELETE", "/v1/operations/" + offer["id"])
    for region in made:
        scene.a.call("DELETE", "/v1/regions/" + region)
    page.wait(names.format("regions", "by-size") + ".length === 0")


def ten_thousand_ended_operations_stay_quick(scene):
    page = scene.browser
    region = scene.a.region(4096)
    offer = scene.a.call("POST", "/v1/operations?include=metadata",
                         {"kind": "readable", "uses": "unlimited", "descriptors": [{"region": region}]})
    read = {"kind": "read", "descriptors": [{"region": region}], "remote_metadata": offer["metadata"]}
    for _ in range(ENDED // 1000):
        scene.a.call("POST", "/v1/operations/batch", {"operations": [read] * 1000}, Prefer="wait=50")
    page.open(scene.a.url + "/")
    enter(page, TOKEN)
    page.wait("document.body.className === 'live'")
    page.wait("ended.length === 50 && document.querySelectorAll('#ended tbody tr').length === 50")
    took = page.eval("(start => { show(); return performance.now() - start; })(performance.now())")
    assert took < 500, took  # it is shown four times a second
    scene.shoot("ended", at="h-ended")
    # Between two uses nothing runs; and who looks for the failures of before learns where they are.
    page.wait(f"document.querySelector(`#offers a[href$='{offer['id']}']`)?.closest('tr').innerText.includes('{ENDED} of unlimited')")
    assert page.eval("document.getElementById('count-transfers').textContent") == "0"
    assert page.eval("failures.length") == 0 and "still remembers" in page.eval("document.getElementById('no-failures').textContent")
    scene.a.call("DELETE", "/v1/operations/" + offer["id"])
    scene.a.call("DELETE", "/v1/regions/" + region)


def the_keyboard_holds_rows_and_opens_them(scene):
    page, made = scene.browser, transfers(scene.a, 2)
    page.wait(f"{ROWS}.length === 2")
    page.key("Tab")  # the keyboard is in use: only then a focus shows
    page.eval("document.querySelector('#transfers tbody a').focus()")
    page.wait("!document.getElementById('held').hidden")
    page.key("Enter", "\r")
    page.wait("document.getElementById('json').open")
    assert made[0]["id"] in page.eval("document.getElementById('json-path').textContent")
    page.key("Escape")
    page.wait("!document.getElementById('json').open")
    assert page.eval("document.activeElement.getAttribute('href')") == "/v1/operations/" + made[0]["id"]
    page.eval("document.activeElement.blur()")
    page.wait("document.getElementById('held').hidden")
    end(scene.a, made)
    page.wait(f"{ROWS}.length === 0")


def a_token_that_is_replaced_is_asked_for_anew(scene):
    page, other = scene.browser, TOKEN[::-1]
    for token, was in ((other, TOKEN), (TOKEN, other)):
        with open(os.path.join(scene.folder, "token"), "w", encoding="ascii") as file:
            file.write(token + "\n")
        scene.a.process.send_signal(signal.SIGHUP)
        page.wait("document.getElementById('refused').textContent.includes('another token meanwhile')")
        assert page.eval("document.getElementById('main').hidden && !document.getElementById('ask').open")
        enter(page, was)
        page.wait("document.getElementById('refused').textContent.includes('not the token')")
        enter(page, token)
        page.wait("document.body.className === 'live'")
        page.eval("document.getElementById('refused').textContent = ''")


def get_axe(folder):
    """The source of axe-core, or None where npm or its registry is missing."""
    if not shutil.which("npm"):
        return None
    try:
        subprocess.run(["npm", "install", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund", AXE],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None
    with open(os.path.join(folder, "node_modules/axe-core/axe.min.js"), encoding="utf-8") as file:
        return file.read()


def axe_finds_nothing(scene):
    axe, page = get_axe(scene.folder), scene.browser
    if not axe:
        print("skipped: axe-core needs npm and its registry")
        return

    def check(what):
        for dark in (False, True):
            for size in SIZES.values():
                page.look(*size, dark)
                if page.eval("typeof axe") == "undefined":  # the debugger's scripts are not under the policy
                    page.eval(axe + ";0")
                found = page.eval("axe.run().then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))")
                assert not found, (what, size, dark, found)
        page.look(*SIZES["wide"], False)

    page.open(scene.a.url + "/")
    page.wait("document.getElementById('login') && !document.getElementById('login').hidden")
    check("login")
    enter(page, TOKEN)
    page.wait("document.body.className === 'live'")
    check("empty")
    made = transfers(scene.a, 12)
    page.wait(f"{ROWS}.length === 12")
    page.eval(f"refuse(operations.get('{made[0]['id']}'), 'because'); dirty = true")
    page.wait(f"{ROWS}.some(row => row.innerText.includes('because'))")
    check("rows")
    end(scene.a, made)
    page.wait(f"{ROWS}.length <= 1")  # the refused one may stay
    made = transfers(scene.a, 2)
    for operation in made:
        page.wait(f"{ROWS}.some(row => row.innerText.includes('{operation['id']}'))")
    page.eval(f"askToCancel(operations.get('{made[0]['id']}'))")
    scene.a.call("POST", f"/v1/operations/{made[1]['id']}/cancel")
    page.wait("document.querySelector('#transfers .gone') !== null")
    check("ask")
    page.eval("document.getElementById('ask').close(); document.querySelector('#regions a').click()")
    page.wait("document.getElementById('json').open")
    check("json")
    page.eval("document.getElementById('json').close(); refusals.clear()")
    end(scene.a, made)
    page.wait(f"{ROWS}.length === 0")
    page.open(scene.a.url + "/docs")
    page.wait("document.querySelectorAll('#listEvents td').length > 5")
    check("docs")
    page.open(scene.a.url + "/")
    enter(page, TOKEN)
    page.wait("document.body.className === 'live'")


def a_failure_after_the_stream_has_begun_leaves_no_stream_behind(scene):
    page = scene.browser
    page.open(scene.a.url + "/")
    page.wait("document.getElementById('login') && !document.getElementById('login').hidden")
    page.eval("window.left = 3; window.real = fetch; window.fetch = (path, options) =>"
              " path === '/v1/limits' && left-- > 0 ? Promise.reject(new TypeError('lost')) : real(path, options)")
    enter(page, TOKEN)
    page.wait("document.body.className === 'live'")
    page.wait("document.getElementById('count-readers').textContent === '1'")


def a_stream_that_falls_silent_is_taken_for_cut(scene):
    page = scene.browser
    page.eval("silentMs = 500")
    scene.a.call("DELETE", "/v1/regions/" + scene.a.region(4096))  # the limit holds from the next event on
    scene.a.process.send_signal(signal.SIGSTOP)
    page.wait("document.body.className === 'lost'")
    page.eval("silentMs = 40000")
    scene.a.process.send_signal(signal.SIGCONT)
    page.wait("document.body.className === 'live'")
    page.wait("document.getElementById('count-readers').textContent === '1'")


def an_answer_that_stalls_is_asked_for_again(scene):
    page = scene.browser
    page.open(scene.a.url + "/")
    page.wait("document.getElementById('login') && !document.getElementById('login').hidden")
    page.eval("silentMs = 500; window.left = 1; window.real = fetch; window.fetch = (path, options) =>"
              " path === '/metrics' && left-- > 0 ? Promise.resolve(new Response(new ReadableStream({ start: (body) =>"
              " options.signal.addEventListener('abort', () => body.error(options.signal.reason)) })))"
              " : real(path, options)")
    enter(page, TOKEN)
    page.wait("document.body.className === 'live'")
    page.eval("silentMs = 40000")
    page.wait("document.getElementById('count-readers').textContent === '1'")


def near_limits_are_told_until_they_are_cleared(scene):
    page, limits = scene.browser, "document.getElementById('limits').textContent"
    told = "regions_max (10) is nearly used up"
    region = scene.a.call("GET", "/v1/regions")["regions"][0]["id"]  # the tests before have made two
    made = [scene.a.region(4096) for _ in range(7)]
    page.wait(f"{limits} === '{told}'")
    offers = [{"kind": "writable", "ttl_ms": 1000, "descriptors": [{"region": region}]}] * 1024
    for _ in range(EVENTS_KEPT // len(offers)):  # the worker forgets the event that told it
        scene.a.call("POST", "/v1/operations/batch", {"operations": offers})
    page.open(scene.a.url + "/")
    enter(page, TOKEN)
    page.wait(f"{limits} === '{told}'")
    made.append(scene.a.region(MEMORY_MIB * 9 // 10 << 20))
    page.wait(f"{limits} === '{told}, memory_limit ({MEMORY_MIB}\u00a0MiB) is nearly used up'")
    for region in made:
        scene.a.call("DELETE", "/v1/regions/" + region)
    page.wait(f"{limits} === ''")


def many_transfers_stay_readable(scene):
    page = scene.browser
    region = scene.a.region(256 << 20)
    scene.a.call("POST", "/v1/operations/batch",
                 {"operations": [{"kind": "writable", "label": f"kv/{i}", "ttl_ms": 45000,
                                  "descriptors": [{"region": region, "size": 4096}]} for i in range(3)]})
    transfers(scene.a, MANY)
    page.wait(f"document.querySelectorAll('#transfers tbody tr').length === {MANY}")
    page.wait("document.querySelectorAll('#offers tbody tr').length === 3")
    page.wait(f"document.getElementById('n-transfers').textContent.startsWith('{MANY} running')")
    assert page.eval("document.getElementById('transfers').parentElement.clientHeight < innerHeight")
    if scene.shots:
        page.wait("[...document.querySelectorAll('#transfers progress')].every(bar => bar.value > 0)")
    scene.shoot("many")
    scene.shoot("many-below", at="h-peers")
    scene.fits()


def the_interface_has_every_operation_with_a_request_to_paste(scene):
    page = scene.browser
    page.open(scene.a.url + "/docs")
    page.wait("document.querySelectorAll('#listEvents td').length > 5")
    without = page.eval("[...document.querySelectorAll('section:has(> .route)')]"
                        ".filter(s => !s.querySelector('.sample')?.textContent.includes('curl ')).map(s => s.id)")
    assert without == [], without
    names = page.eval("[...document.querySelectorAll('section[id]')].map(s => s.id)")
    document = scene.a.call("GET", "/openapi.json")
    wanted = {operation["operationId"] for item in document["paths"].values() for operation in item.values()
              if isinstance(operation, dict)}
    assert wanted <= set(names), wanted - set(names)
    broken = page.eval("[...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.hash.slice(1))"
                       ".filter(id => !document.getElementById(id))")
    assert broken == [], broken
    scene.shoot("docs")
    scene.shoot("docs-operation", at="createOperation")
    scene.shoot("docs-error", at="error-limit-reached")
    scene.fits()


def the_type_of_a_problem_leads_to_its_cause_and_cure(scene):
    page = scene.browser
    problem = scene.a.call("GET", "/v1/regions/rgn_0000000000000001", status=404)
    page.open(scene.a.url + problem["type"])
    text = page.wait("document.querySelector(':target')?.textContent")
    assert all(word in text for word in ("not-found", "Cause", "Cure", problem["title"])), text
    page.wait("(r => r.top >= 0 && r.top < innerHeight)(document.querySelector(':target').getBoundingClientRect())")
    page.wait("(r => r.top >= 0 && r.bottom < innerHeight)(document.querySelector('#contents a[href=\"#error-not-found\"][aria-current]')"
              ".getBoundingClientRect())")  # the contents have followed


def a_word_finds_what_the_interface_says_of_it(scene):
    page = scene.browser
    page.open(scene.a.url + "/docs")
    page.wait("document.getElementById('search') && !document.getElementById('search').hidden")
    shown = "[...document.querySelectorAll('#contents .group li:not([hidden]) a')].map(a => a.hash)"
    whole = len(page.eval(shown))
    page.eval("find.value = 'Ferry-Error  Gives'; find.dispatchEvent(new Event('input'))")
    assert page.eval(shown) == ["#deleteOperationContent"], page.eval(shown)
    assert page.eval("document.getElementById('found').textContent") == f"1 of {whole} have it"
    page.eval("find.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }))")
    page.wait("location.hash === '#deleteOperationContent'")
    page.wait("document.querySelector('#contents a[aria-current]')?.hash === '#deleteOperationContent'")
    page.eval("find.value = ''; find.dispatchEvent(new Event('input'))")
    assert len(page.eval(shown)) == whole


def the_death_of_the_worker_is_seen(scene):
    page = scene.browser
    page.open(scene.a.url + "/")
    enter(page, TOKEN)
    page.wait("document.body.className === 'live'")
    scene.a.process.kill()
    page.wait("document.body.className === 'lost'")
    scene.shoot("lost")


TESTS = (a_wrong_token_is_asked_for_again, the_token_opens_the_page_and_stays_in_memory,
         transfers_appear_and_are_cancelled_when_that_is_confirmed, rows_stay_under_the_pointer,
         a_refused_cancel_says_why_in_its_row, what_moved_before_the_page_was_opened_is_in_the_graph,
         the_graph_has_a_scale_a_unit_and_a_beginning, every_use_of_an_offer_is_counted, what_a_client_names_is_text,
         ended_transfers_say_how_they_went, requests_that_were_refused_are_counted_by_code,
         regions_come_by_size_and_offers_by_time_left, the_keyboard_holds_rows_and_opens_them, axe_finds_nothing,
         ten_thousand_ended_operations_stay_quick, a_token_that_is_replaced_is_asked_for_anew,
         a_failure_after_the_stream_has_begun_leaves_no_stream_behind, a_stream_that_falls_silent_is_taken_for_cut,
         an_answer_that_stalls_is_asked_for_again,
         near_limits_are_told_until_they_are_cleared, many_transfers_stay_readable,
         the_interface_has_every_operation_with_a_request_to_paste, the_type_of_a_problem_leads_to_its_cause_and_cure,
         a_word_finds_what_the_interface_says_of_it)


def main():
    if not browser.find():
        print("skipped: no Chromium here (scripts/setup --all installs it)")
        return 77
    with tempfile.TemporaryDirectory(prefix="ferry-pages-") as folder:
        scene = Scene(os.path.abspath(sys.argv[1]), folder, sys.argv[2] if len(sys.argv) > 2 else None)
        try:
            for test in TESTS:
                test(scene)
                # A refused token and a forgotten operation are in the console, too; a breach of the policy or an
                # exception must not be.
                wrong = [text for text in scene.browser.complaints() if "401" not in text and "410" not in text]
                assert not wrong, (test.__name__, wrong)
                print("ok", test.__name__, flush=True)
            the_death_of_the_worker_is_seen(scene)
            print("ok", the_death_of_the_worker_is_seen.__name__)
        finally:
            scene.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
