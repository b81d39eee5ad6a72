#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manifests, the dashboard and the service of scripts/ agree with each other and with a running worker."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

try:
    import yaml
except ImportError:
    yaml = None

ROOT = pathlib.Path(os.environ["FERRY_ROOT"])
DEPLOY, DEBIAN = ROOT / "scripts" / "deploy", ROOT / "scripts" / "debian"
FERRYD = os.environ["FERRYD"]
LIMIT = 60
LOOK_S = 0.2  # how often eventually() looks
TOKENS = ("token", "peer-token", "metrics-token")


def tool(name):
    path = os.pathsep.join([os.environ["FERRY_TOOLS"], os.environ["PATH"]])
    found = shutil.which(name, path=path)
    if not found:
        raise unittest.SkipTest(f"{name} is not installed")
    return found


def get(url, token=None, body=None):
    request = urllib.request.Request(url, body and json.dumps(body).encode(), {"Content-Type": "application/json"})
    if token:
        request.add_header("Authorization", "Bearer " + token)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=LIMIT) as answer:
        return answer.read().decode()


def eventually(check):
    """Polls, for a limited time: Prometheus tells nobody of a scrape. Whether it became true."""
    deadline = time.monotonic() + LIMIT
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_S)
    return True


class Scene(unittest.TestCase):
    """A directory with tokens, and workers that end with the test."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ferry-deploy-"))
        self.addCleanup(shutil.rmtree, self.directory)
        for name in TOKENS:
            (self.directory / name).write_text(f"the-{name}-of-this-test\n")

    def spawn(self, *command, environment=None, **more):
        process = subprocess.Popen([str(word) for word in command], text=True,
                                   env={**os.environ, **(environment or {})}, **more)

        def end():
            process.terminate()
            process.communicate(timeout=LIMIT)

        self.addCleanup(end)
        return process

    def worker(self, *flags, environment=None):
        log = self.directory / "worker.log"
        with log.open("w") as errors:
            process = self.spawn(FERRYD, *flags, environment=environment, stdout=subprocess.PIPE, stderr=errors)
        line = process.stdout.readline()
        if not line and "outside of system's configured port range" in log.read_text():
            self.skipTest("UCX 1.12 takes only ports that the kernel gives to anybody")
        self.assertTrue(line, f"ferryd does not start with {flags}:\n{log.read_text()}")
        return json.loads(line)

    def tokened_worker(self):
        # Nobody answers as its registry: what it says of that is there all the same.
        return self.worker("--listen", "127.0.0.1:0", "--local", self.directory / "local", "--registry",
                           "http://127.0.0.1:1", "--name", "of-this-test",
                           *(word for name in TOKENS for word in (f"--{name}-file", self.directory / name)),
                           "--allow-peer", "127.0.0.1")


def expressions():
    """Those of the dashboard, and of the alerts."""
    dashboard = json.loads((DEPLOY / "dashboard.json").read_text())
    panels = [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
    return panels, [(rule["alert"], rule["expr"]) for rule in rules]


def without_variables(expression):
    return expression.replace("$instance", ".*").replace("$__rate_interval", "1m")


@unittest.skipUnless(yaml, "python3-yaml is not installed")
class Metrics(Scene):
    def test_every_metric_and_label_that_is_asked_for_exists(self):
        worker = self.tokened_worker()
        url = worker["http"][0]
        get(url + "/livez")  # the requests and their times have series from the first request on
        samples = get(url + "/metrics", "the-metrics-token-of-this-test")
        labels = {"up": set()}
        for name, text in re.findall(r"^([a-z_]+)(\{.*\})? ", samples, re.M):
            labels.setdefault(name, set()).update(re.findall(r'([a-z_]+)="', text))
        scraped = {"instance", "job"}
        panels, alerts = expressions()
        self.assertGreater(len(panels), 15)
        for title, expression in panels + alerts:
            names = set(re.findall(r"\b(?:ferry|process)_[a-z_]+\b", expression))
            self.assertTrue(names or "up{" in expression, title)
            self.assertLessEqual(names, labels.keys(), title)
            known = scraped.union(*(labels[name] for name in names))
            asked = set(re.findall(r"([a-z_]+)(?:=~|!~|=|!=)\"", expression))
            for by in re.findall(r"by \(([^)]*)\)", expression):
                asked.update(re.split(r",\s*", by))
            self.assertLessEqual(asked, known, title)

    def configuration(self, target):
        """Ours for one worker: Debian's Prometheus knows no Kubernetes."""
        configuration = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())
        job = configuration["scrape_configs"][0]
        self.assertEqual(job.pop("kubernetes_sd_configs"), [{"role": "pod"}])
        job["static_configs"] = [{"targets": [target]}]
        job["authorization"]["credentials_file"] = str(self.directory / "metrics-token")
        configuration["rule_files"] = [str(DEPLOY / "alerts.yaml")]
        return configuration

    def write(self, configuration):
        file = self.directory / "prometheus.yaml"
        file.write_text(yaml.safe_dump(configuration))
        return file

    def test_promtool_takes_the_alerts_and_the_scrape_configuration(self):
        promtool = tool("promtool")
        done = subprocess.run([promtool, "check", "config", self.write(self.configuration("127.0.0.1:9300"))],
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("8 rules found", done.stdout)

    def test_prometheus_scrapes_a_worker_and_every_panel_has_data(self):
        prometheus = tool("prometheus")
        worker = self.tokened_worker()
        configuration = self.configuration(worker["http"][0].removeprefix("http://"))
        job = configuration["scrape_configs"][0]
        del job["relabel_configs"]  # they drop what is no pod
        job["scrape_interval"] = "500ms"
        configuration["global"] = {"evaluation_interval": "500ms"}
        file = self.write(configuration)
        # Older ones do not say which port they took, so this is one at an address that nobody else listens at.
        address = f"127.1.{os.getpid() >> 8 & 255}.{os.getpid() & 255}:19090"
        process = self.spawn(prometheus, "--config.file", file, "--storage.tsdb.path", self.directory / "data",
                             "--web.listen-address", address, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def ask(path, **query):
            try:
                return json.loads(get(f"http://{address}/api/v1/{path}?{urllib.parse.urlencode(query)}"))["data"]
            except urllib.error.HTTPError as error:
                if error.code != 503:
                    self.fail(f"{query}: {error.read().decode()}")
            except urllib.error.URLError:
                pass
            return {"result": [], "groups": []}  # not ready yet

        panels, alerts = expressions()
        # "> 0" leaves what does not happen here out.
        waiting = {text for _, text in panels if not text.endswith("> 0")} | {'up{job="ferry"} == 1'}
        every = {text for _, text in panels + alerts}

        def scraped():
            self.assertIsNone(process.poll(), "Prometheus does not start")
            waiting.difference_update([text for text in waiting if ask("query", query=without_variables(text))["result"]])
            return not waiting

        self.assertTrue(eventually(scraped), waiting)
        for text in every:
            ask("query", query=without_variables(text))
        rules = ask("rules")["groups"][0]["rules"]
        self.assertEqual([rule.get("lastError", "") for rule in rules], [""] * len(alerts))


@unittest.skipUnless(yaml, "python3-yaml is not installed")
class Pods(Scene):
    @classmethod
    def setUpClass(cls):
        cls.documents = {name: list(yaml.safe_load_all((DEPLOY / f"{name}.yaml").read_text()))
                         for name in ("local", "rdma", "network-policy")}

    def pod(self, name):
        sets = [each for each in self.documents[name] if each["kind"] == "StatefulSet"]
        self.assertEqual(len(sets), 1)
        return sets[0]["spec"]["template"]

    def container(self, name):
        return self.pod(name)["spec"]["containers"][0]

    def start(self, name):
        """A worker with the flags of the pod, and places of this test."""
        flags = []
        for flag in self.container(name)["args"]:
            flag = flag.replace("$(POD_NAME)", "ferry-0").replace("$(POD_IP)", "127.0.0.1")
            flag = re.sub(r"=(0\.0\.0\.0|127\.0\.0\.1):\d+", r"=\1:0", flag)
            flag = flag.replace("/etc/ferry-tokens", str(self.directory))
            flags.append(flag.replace("/run/ferry-node", str(self.directory)))
        environment = {each["name"]: each["value"] for each in self.container(name)["env"] if "value" in each}
        ready = self.worker(*flags, environment=environment)
        return ready, "http://127.0.0.1:" + ready["http"][0].rsplit(":", 1)[1]

    def test_their_workers_start_and_the_probes_pass_without_a_token(self):
        for name in ("local", "rdma"):
            ready, url = self.start(name)
            self.assertEqual("data" in ready, name == "rdma")
            self.assertEqual(ready["worker"], "ferry-0")
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                check = self.container(name)[probe]["httpGet"]
                self.assertIn(check["port"], [port["name"] for port in self.container(name)["ports"]])
                get(url + check["path"])
            with self.assertRaises(urllib.error.HTTPError) as refused:
                get(url + "/v1/regions")
            self.assertEqual(refused.exception.code, 401)

    def test_ports_labels_and_names_agree(self):
        policy = self.documents["network-policy"][0]["spec"]
        opened = [(port["port"], port.get("endPort", port["port"])) for rule in policy["ingress"]
                  for port in rule["ports"]]
        for name in ("local", "rdma"):
            service = [each for each in self.documents[name] if each["kind"] == "Service"][0]
            pod, container = self.pod(name), self.container(name)
            self.assertEqual(service["spec"]["clusterIP"], "None")
            self.assertLessEqual(service["spec"]["selector"].items(), pod["metadata"]["labels"].items())
            self.assertLessEqual(policy["podSelector"]["matchLabels"].items(), pod["metadata"]["labels"].items())
            ports = {port["containerPort"] for port in container["ports"]}
            self.assertEqual({port["port"] for port in service["spec"]["ports"]}, ports)
            for flag in ("--listen", "--data-listen"):
                for each in container["args"]:
                    if each.startswith(flag + "="):
                        self.assertIn(int(each.rsplit(":", 1)[1]), ports)
            for port in ports:
                self.assertTrue(any(first <= port <= last for first, last in opened), port)
            secrets = [each["secret"]["secretName"] for each in pod["spec"]["volumes"] if "secret" in each]
            self.assertEqual(secrets, ["ferry-tokens"])
        lanes = [each["value"] for each in self.container("rdma")["env"] if each["name"] == "UCX_TCP_PORT_RANGE"]
        self.assertIn(tuple(map(int, lanes[0].split("-"))), opened)

    def test_ucx_listens_in_its_range_alone(self):
        ready, _ = self.start("rdma")
        data = int(ready["data"].rsplit(":", 1)[1])
        http = int(ready["http"][0].rsplit(":", 1)[1])
        inodes = set()
        for link in pathlib.Path(f"/proc/{ready['pid']}/fd").iterdir():
            inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(link)))
        ports = set()
        for table in ("tcp", "tcp6"):
            for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                row = line.split()
                if row[3] == "0A" and row[9] in inodes:
                    ports.add(int(row[1].rsplit(":", 1)[1], 16))
        self.assertLessEqual({data, http}, ports)
        lanes = ports - {data, http}
        self.assertTrue(lanes)
        self.assertTrue(all(9500 <= port <= 9599 for port in lanes), lanes)


class Service(Scene):
    def test_its_defaults_start_a_worker(self):
        text = (DEBIAN / "ferry.ferryd.default").read_text().replace("/run/ferry", str(self.directory))
        known = set(re.findall(r"--([a-z-]+)", subprocess.run([FERRYD, "--help"], capture_output=True, text=True,
                                                                check=True, timeout=LIMIT).stdout))
        for name in re.findall(r"^#?FERRY_([A-Z_]+)=", text, re.M):
            self.assertIn(name.lower().replace("_", "-"), known)
        settings = dict(line.split("=", 1) for line in text.splitlines() if re.match(r"[A-Z_]+=", line))
        ready = self.worker(environment=settings)
        self.assertEqual(ready["http"], [f"unix:{self.directory}/ferryd.sock"])

    def test_systemd_takes_the_unit(self):
        analyze = tool("systemd-analyze")
        unit = self.directory / "ferryd.service"
        text = (DEBIAN / "ferry.ferryd.service").read_text().replace("/usr/bin/ferryd", FERRYD)
        unit.write_text(text.replace("/bin/kill", shutil.which("kill") or "/bin/true"))  # procps, which is recommended
        done = subprocess.run([analyze, "verify", "--man=no", unit], capture_output=True, text=True, timeout=LIMIT,
                              check=False)
        ours = [line for line in done.stderr.splitlines() if "ferryd" in line]
        self.assertEqual(ours, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
