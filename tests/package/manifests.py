"""
deploy/containers against its schemas, and against itself.

Compose: docker-compose of Debian reads the file as it would to start it. It knows every key and its type. Kubernetes:
kubectl renders each folder, and each object is held against the models of python3-kubernetes, which are made of the API's
OpenAPI schema: unknown fields, types, required fields. Not covered is what only a cluster knows: limits of values,
admission, whether an image exists.
"""
import os
import re
import shutil
import subprocess

import kubernetes.client
import yaml

from debian import TOP
from score import Failed, say

FOLDER = os.path.join(TOP, "deploy", "containers")
INSTALL = os.path.join(TOP, "deploy", "doc", "install.md")
COMPOSE = os.path.join(FOLDER, "compose.yaml")
SIMPLE = {"str": str, "int": int, "float": (int, float), "bool": bool, "object": object, "datetime": object}


def compose():
    with open(COMPOSE, encoding="utf-8") as stream:
        return yaml.safe_load(stream)


def read_by_compose(text, folder):
    """What docker-compose says against this file: empty, if nothing."""
    file = os.path.join(folder, "compose.yaml")
    with open(file, "w", encoding="utf-8") as stream:
        stream.write(text)
    tool = shutil.which("docker-compose")
    if not tool:
        raise Failed("docker-compose is missing: deploy/setup installs it")
    done = subprocess.run([tool, "-f", file, "config", "-q"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, stdin=subprocess.DEVNULL, timeout=60)
    return done.stdout.strip() or f"exit {done.returncode}" if done.returncode else ""


class Checkout:
    """A folder that looks like one, in which a person follows "In containers" of install.md."""

    def __init__(self, folder):
        self.folder = folder
        shutil.copytree(FOLDER, os.path.join(folder, "deploy", "containers"), ignore=shutil.ignore_patterns("secrets"))

    def make_secrets(self):
        """The block, to the letter. Only root can give a file away."""
        with open(INSTALL, encoding="utf-8") as stream:
            text = stream.read()
        blocks = re.findall(r"^<!-- run by tests/package/containers -->\n```sh\n(.*?)^```$", text, re.M | re.S)
        if len(blocks) != 1:
            raise Failed(f"{INSTALL} has {len(blocks)} blocks for this test")
        stand_in = "" if os.geteuid() == 0 else "chown() { :; }\n"
        say("sh", "-exc", stand_in + blocks[0], cwd=self.folder)

    def secret_files(self):
        """Where compose looks for them, when it is started as install.md says."""
        with open(INSTALL, encoding="utf-8") as stream:
            words = re.search(r"^docker compose (.*) up$", stream.read(), re.M)[1].split()
        said = say("docker-compose", *words, "config", cwd=self.folder, env={**os.environ, "COMPOSE_PROJECT_NAME": "t"})
        return {name: one["file"] for name, one in yaml.safe_load(said)["secrets"].items()}

    def made(self):
        return [os.path.join(folder, name) for folder, _, names in os.walk(self.folder) for name in names
                if os.path.basename(folder) == "secrets"]


def render(variant):
    """The objects of kubernetes/VARIANT, after its patches."""
    done = subprocess.run(["kubectl", "kustomize", os.path.join(FOLDER, "kubernetes", variant)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60)
    if done.returncode != 0:
        raise Failed(f"kubectl kustomize {variant}: {done.stderr}")
    return list(yaml.safe_load_all(done.stdout))


def check_object(item):
    """What the API's schema has against this object."""
    version = item.get("apiVersion", "").split("/")[-1]
    name = version.capitalize() + item.get("kind", "")
    if not hasattr(kubernetes.client, name):
        return [f"{item.get('kind')}: apiVersion {item.get('apiVersion')} has no such kind"]
    return list(check_value(item, name, f"{item['kind']}/{item['metadata']['name']}"))


def check_value(value, kind, path):
    inner = re.fullmatch(r"list\[(.*)\]|dict\(str, (.*)\)", kind)
    if kind in SIMPLE:
        if not isinstance(value, SIMPLE[kind]) or kind == "int" and isinstance(value, bool):
            yield f"{path}: {value!r} is no {kind}"
    elif inner and not isinstance(value, list if inner[1] else dict):
        yield f"{path}: {value!r} is no {kind}"
    elif inner:
        for key, one in enumerate(value) if inner[1] else value.items():
            yield from check_value(one, inner[1] or inner[2], f"{path}[{key}]")
    else:
        yield from check_fields(value, getattr(kubernetes.client, kind), path)


def check_fields(value, model, path):
    if not isinstance(value, dict):
        yield f"{path}: {value!r} is no {model.__name__}"
        return
    attributes = {key: attribute for attribute, key in model.attribute_map.items()}
    for key, one in value.items():
        if key not in attributes:
            yield f"{path}.{key}: {model.__name__} has no such field"
        else:
            yield from check_value(one, model.openapi_types[attributes[key]], f"{path}.{key}")
    try:
        model(**{attributes[key]: one for key, one in value.items() if key in attributes})
    except ValueError as problem: # what is required and missing, and words that are none of a list
        yield f"{path}: {problem}"


def check_references(items):
    """Names in one object that stand for something in it, or in another."""
    labels = [item["spec"]["template"]["metadata"]["labels"] for item in items if item["kind"] == "StatefulSet"]
    for item in items:
        where = f"{item['kind']}/{item['metadata']['name']}"
        selector = item["spec"]["selector"]
        if not any(selector.get("matchLabels", selector).items() <= own.items() for own in labels):
            yield f"{where}: its selector finds no pod"
        if item["kind"] == "StatefulSet":
            yield from check_pod(item["spec"]["template"]["spec"], item["spec"].get("volumeClaimTemplates", []), where)


def check_pod(pod, claims, where):
    volumes = {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"] for claim in claims}
    for container in pod["containers"]:
        at = f"{where}/{container['name']}"
        ports = {port["name"] for port in container.get("ports", [])}
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in volumes:
                yield f"{at}: there is no volume {mount['name']}"
        for probe in ("readinessProbe", "livenessProbe"):
            if probe in container and container[probe]["httpGet"]["port"] not in ports:
                yield f"{at}: the port of {probe} is none of its own"
        known = set()
        for variable in container.get("env", []):
            unknown = set(re.findall(r"\$\((\w+)\)", variable.get("value", ""))) - known
            if unknown:
                yield f"{at}: {variable['name']} uses {unknown}, which no variable before it defines"
            known.add(variable["name"])


def selects(service, pods):
    return [pod for pod in pods
            if service["spec"]["selector"].items() <= pod["spec"]["template"]["metadata"]["labels"].items()]


def program(container):
    """keywake-proxy, keywake-agent, keywake-gateway; "" of a server."""
    return container["command"][0] if container["image"] == "keywake" else ""


def check_services(items):
    """Trouble of a daemon must not take its server out of service, but for the replicas of an agent that is not warm."""
    pods = [item for item in items if item["kind"] == "StatefulSet"]
    services = [item for item in items if item["kind"] == "Service"]
    for service in services:
        yield from check_service(service, selects(service, pods))
    for pod in pods:
        where = f"StatefulSet/{pod['metadata']['name']}"
        governing = next((one for one in services if one["metadata"]["name"] == pod["spec"]["serviceName"]), None)
        if not governing or governing["spec"].get("clusterIP") != "None" or pod not in selects(governing, pods):
            yield f"{where}: its serviceName must be a headless Service of its pods"
        for container in pod["spec"]["template"]["spec"]["containers"]:
            yield from check_probes(container, f"{where}/{container['name']}")
            yield from check_dialled(container, services, pods, f"{where}/{container['name']}")


def check_service(service, pods):
    where = f"Service/{service['metadata']['name']}"
    ports = {port["name"] for port in service["spec"]["ports"]}
    daemons = {program(container) for pod in pods for container in pod["spec"]["template"]["spec"]["containers"]}
    if {"redis", "table"} <= ports:
        yield f"{where}: one Service for Redis and the table ties one to the trouble of the other"
    if "keywake-proxy" in daemons and not service["spec"].get("publishNotReadyAddresses"):
        yield f"{where}: a proxy that is not ready takes the primary out of it: publishNotReadyAddresses"
    if "table" in ports and service["spec"].get("clusterIP") != "None":
        yield f"{where}: the address of a Service before the table looks like a relay: clusterIP None"


def check_probes(container, where):
    if not program(container):
        return
    if "readinessProbe" in container and program(container) == "keywake-proxy":
        yield f"{where}: a readinessProbe of the proxy decides over the primary in its pod"
    for probe, path in (("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
        if probe in container and container[probe]["httpGet"]["path"] != path:
            yield f"{where}: {probe} must ask for {path}"
    if "livenessProbe" not in container:
        yield f"{where}: it has no livenessProbe"


def check_dialled(container, services, pods, where):
    """POD.SERVICE:PORT of an agent must be the table of a pod, by its own address."""
    for variable in container.get("env", []):
        found = re.fullmatch(r"\w+://([\w-]+)-\d+\.([\w-]+):(\d+)", variable.get("value", ""))
        if variable["name"] != "KEYWAKE_PROXY":
            continue
        service = next((one for one in services if found and one["metadata"]["name"] == found[2]), None)
        if not service or int(found[3]) not in {port["port"] for port in service["spec"]["ports"]} or \
                found[1] not in {pod["metadata"]["name"] for pod in selects(service, pods)
                                 if pod["spec"]["serviceName"] == found[2]}:
            yield f"{where}: {variable['value']} leads to no pod"


def environment(container, fields):
    """What the kubelet would put there."""
    variables = {}
    for variable in container["env"]:
        if "valueFrom" in variable:
            variables[variable["name"]] = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        else:
            variables[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], variable["value"])
    return variables


# ---- the tests ----

def test_compose_reads_its_file(folder):
    with open(COMPOSE, encoding="utf-8") as stream:
        text = stream.read()
    said = read_by_compose(text, folder)
    assert not said, said
    for planted in (text.replace("    command: keywake-agent", "    comand: keywake-agent"),
                    text.replace("read_only: true", "read_only: [1]"),
                    text.replace("primary-socket:/run/redis", "primary-sockets:/run/redis")):
        assert planted != text and read_by_compose(planted, folder), "a planted fault was not found"


def test_the_secrets_are_where_compose_looks(folder):
    checkout = Checkout(os.path.join(folder, "checkout"))
    checkout.make_secrets()
    files = checkout.secret_files()
    assert set(files) == {"keywake", "keywake-http"}, files
    for name, path in files.items():
        assert os.path.isfile(path), f"{name}: compose looks for {path}, and the block made {checkout.made()}"
        assert os.stat(path).st_mode & 0o7777 == 0o640 and os.path.getsize(path) > 32
        assert os.geteuid() != 0 or (os.stat(path).st_uid, os.stat(path).st_gid) == (0, 65532)
    ignored = subprocess.run(["git", "-C", TOP, "check-ignore", "-q", "deploy/containers/secrets/keywake"], check=False)
    assert ignored.returncode == 0, "the secrets of a checkout could be committed"


def test_the_manifests_keep_the_schema_of_kubernetes(_folder):
    for variant in ("tcp", "rdma"):
        wrong = [line for item in render(variant) for line in check_object(item)]
        assert not wrong, f"{variant}:\n" + "\n".join(wrong)


def test_what_a_manifest_names_exists_in_it(_folder):
    for variant in ("tcp", "rdma"):
        wrong = list(check_references(render(variant)))
        assert not wrong, f"{variant}:\n" + "\n".join(wrong)


def test_trouble_of_a_daemon_takes_no_server_out(_folder):
    for variant in ("tcp", "rdma"):
        wrong = list(check_services(render(variant)))
        assert not wrong, f"{variant}:\n" + "\n".join(wrong)


def test_a_daemon_that_could_take_its_server_out_is_found(_folder):
    def plant(name, change):
        items = render("tcp")
        one = next(item for item in items if f"{item['kind']}/{item['metadata']['name']}" == name)
        change(one["spec"])
        return list(check_services(items))

    def sidecar(spec):
        return spec["template"]["spec"]["containers"][-1]

    probe = {"httpGet": {"path": "/readyz", "port": "http"}}
    for name, change, sentence in (
            ("StatefulSet/primary", lambda spec: sidecar(spec).update(readinessProbe=probe), "decides over the primary"),
            ("Service/primary", lambda spec: spec.pop("publishNotReadyAddresses"), "takes the primary out"),
            ("Service/primary", lambda spec: spec["ports"].append({"name": "table", "port": 7471}), "one Service for Redis"),
            ("Service/primary-table", lambda spec: spec.pop("clusterIP"), "looks like a relay"),
            ("StatefulSet/primary", lambda spec: sidecar(spec)["livenessProbe"].update(probe), "must ask for /healthz"),
            ("StatefulSet/replica", lambda spec: sidecar(spec).pop("livenessProbe"), "no livenessProbe"),
            ("StatefulSet/primary", lambda spec: spec.update(serviceName="primary"), "must be a headless Service"),
            ("Service/primary-table", lambda spec: spec["ports"][0].update(port=7472), "leads to no pod")):
        said = plant(name, change)
        assert any(sentence in line for line in said), f"a planted fault was not found: {sentence}: {said}"


def test_faults_in_a_manifest_are_found(_folder):
    def plant(change):
        items = render("tcp")
        pod = next(item for item in items if item["kind"] == "StatefulSet" and item["metadata"]["name"] == "replica")
        pod = pod["spec"]["template"]["spec"]
        change(pod, pod["containers"][-1])
        return [line for item in items for line in check_object(item)] or list(check_references(items))

    faults = {
        "misspelt": lambda _pod, container: container.update(readinesProbe={}),
        "of the wrong type": lambda _pod, container: container["ports"][0].update(containerPort="7471"),
        "missing, and required": lambda _pod, container: container.pop("name"),
        "a text that is none": lambda _pod, container: container["env"][1].update(value=1),
        "no such volume": lambda pod, _container: pod["volumes"].pop(),
        "no such port": lambda _pod, container: container["readinessProbe"]["httpGet"].update(port="web"),
        "undefined": lambda _pod, container: container["env"][1].update(value="$(NONE)"),
    }
    for name, change in faults.items():
        assert plant(change), f"a planted fault was not found: {name}"


def test_the_rdma_variant_differs_where_it_must(_folder):
    for item in render("rdma"):
        if item["kind"] == "StatefulSet":
            pod = item["spec"]["template"]["spec"]
            keywake = next(container for container in pod["containers"] if container["image"] == "keywake")
            assert any(name.startswith("rdma/") for name in keywake["resources"]["limits"]), keywake["resources"]
            assert pod["hostNetwork"] and "rdma://" in str(keywake["env"]), keywake["env"]


TESTS = [test_compose_reads_its_file, test_the_secrets_are_where_compose_looks,
         test_the_manifests_keep_the_schema_of_kubernetes, test_what_a_manifest_names_exists_in_it,
         test_trouble_of_a_daemon_takes_no_server_out, test_a_daemon_that_could_take_its_server_out_is_found,
         test_faults_in_a_manifest_are_found, test_the_rdma_variant_differs_where_it_must]
