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


def test_the_manifests_keep_the_schema_of_kubernetes(_folder):
    for variant in ("tcp", "rdma"):
        wrong = [line for item in render(variant) for line in check_object(item)]
        assert not wrong, f"{variant}:\n" + "\n".join(wrong)


def test_what_a_manifest_names_exists_in_it(_folder):
    for variant in ("tcp", "rdma"):
        wrong = list(check_references(render(variant)))
        assert not wrong, f"{variant}:\n" + "\n".join(wrong)


def test_faults_in_a_manifest_are_found(_folder):
    def plant(change):
        items = render("tcp")
        pod = next(item for item in items if item["kind"] == "StatefulSet")["spec"]["template"]["spec"]
        change(pod, pod["containers"][-1])
        return [line for item in items for line in check_object(item)] or list(check_references(items))

    faults = {
        "misspelt": lambda _pod, container: container.update(readinesProbe={}),
        "of the wrong type": lambda _pod, container: container["ports"][0].update(containerPort="7471"),
        "missing, and required": lambda _pod, container: container.pop("name"),
        "a text that is none": lambda _pod, container: container["env"][0].update(value=1),
        "no such volume": lambda pod, _container: pod["volumes"].pop(),
        "no such port": lambda _pod, container: container["readinessProbe"]["httpGet"].update(port="web"),
        "undefined": lambda _pod, container: container["env"][0].update(value="$(NONE)"),
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


TESTS = [test_compose_reads_its_file, test_the_manifests_keep_the_schema_of_kubernetes,
         test_what_a_manifest_names_exists_in_it, test_faults_in_a_manifest_are_found,
         test_the_rdma_variant_differs_where_it_must]
