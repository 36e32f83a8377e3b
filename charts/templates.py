"""The templates of the chart, made of the files that kustomize applies.

Each file of manifests/base and manifests/components becomes a template of the same name, comments included. Values
replace the lines that rules.yaml names; names of the namespace and of schedulers are replaced wherever they stand.
tests/charts compares the objects of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
MANIFESTS = ROOT / "manifests"
CHART = Path(__file__).parent / "muster"

_RULES: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "rules.yaml").read_text())
_NAMES = '{{ include "muster.schedulerNames" . }}'

_CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
  namespace: kube-system
  labels:
    {{{{- include "muster.labels" . | nindent 4 }}}}
{labels}  {{{{- with include "muster.annotations" . }}}}
  {{{{- . | nindent 2 }}}}
  {{{{- end }}}}
data:
  {file}: |
    {{{{- .Files.Get "{path}" | nindent 4 }}}}
"""


class ChartError(Exception):
    """A manifest does not have what the chart replaces; the message says which and what."""


def switch(component: str) -> str:
    """Return the key of a component in values.yaml: jobAdmission for job-admission."""
    first, *others = component.split("-")
    return first + "".join(word.capitalize() for word in others)


def components() -> list[str]:
    """Return the names of all components."""
    return sorted(path.parent.name for path in (MANIFESTS / "components").glob("*/kustomization.yaml"))


def templates() -> dict[str, str]:
    """Return every file of the chart that is made of the manifests: its path in the chart, and its text."""
    switches = _yaml(CHART / "values.yaml")["components"]
    made = dict(_base())
    for component in components():
        if switch(component) not in switches:
            raise ChartError(f"add components.{switch(component)} with a comment to charts/muster/values.yaml")
        made |= _component(component)
    if stale := [path for path in _RULES if f"templates/{path}" not in made]:
        raise ChartError(f"charts/rules.yaml is about {stale[0]}, which is not applied by kustomize")
    return _patched(made)


def digests() -> dict[str, str]:
    """Return the digests by image and tag, where `.ci/digests --fill` has written some into manifests/base."""
    text = (MANIFESTS / "base" / "deployment.yaml").read_text()
    return dict(re.findall(r"^ *image: ([^\s@]+)@(sha256:\w+)$", text, re.MULTILINE))


def _base() -> Iterator[tuple[str, str]]:
    kustomization = _yaml(MANIFESTS / "base" / "kustomization.yaml")
    for name in kustomization["resources"]:
        yield f"templates/base/{name}", _template(f"base/{name}", "")
    for generator in kustomization["configMapGenerator"]:
        for name in generator["files"]:
            yield f"files/{name}", (MANIFESTS / "base" / name).read_text()


def _component(component: str) -> Iterator[tuple[str, str]]:
    folder = f"components/{component}"
    kustomization = _yaml(MANIFESTS / folder / "kustomization.yaml")
    condition = f".Values.components.{switch(component)}"
    for name in kustomization.get("resources", ()):
        yield f"templates/{folder}/{name}", _template(f"{folder}/{name}", condition)
    for generator in kustomization.get("configMapGenerator", ()):
        for name in generator["files"]:
            path = f"files/{component}/{name}"
            labels = "".join(f'    {key}: "{value}"\n' for key, value in generator["options"]["labels"].items())
            text = _CONFIG_MAP.format(name=generator["name"], labels=labels, file=name, path=path)
            yield f"templates/{folder}/{Path(name).stem}.yaml", _when(condition, _named(text))
            yield path, (MANIFESTS / folder / name).read_text()


def _template(path: str, condition: str) -> str:
    """Return a file of the manifests as a template."""
    of_file = _RULES.get(path, {})
    # Braces of others, as in the alerts.
    text = (MANIFESTS / path).read_text().replace("{{", '{{ "{{" }}')
    for rule in of_file.get("rules", ()):
        old = rule.get("is") or rule["image"]
        place = _lines(old) if "is" in rule else _image(old)
        text, times = _replaced(text, place, rule["becomes"].rstrip("\n"))
        if not times:
            raise ChartError(f"manifests/{path} has no longer what charts/rules.yaml replaces:\n{old}")
    text = text.replace("['muster']", _NAMES)
    text = text.replace("value: 'muster'", "value: '{{ first .Values.schedulerNames }}'")
    if "'muster'" in text:
        raise ChartError(f"manifests/{path} names the scheduler 'muster' where charts/templates.py does not look")
    documents = re.split(r"^---\n", text, flags=re.MULTILINE)
    text = "---\n".join(_document(path, one, of_file) for one in documents)
    return _when(of_file.get("when", condition), _named(text))


def _lines(old: str) -> str:
    """Return the pattern of whole lines, however far they are indented."""
    first, *others = map(re.escape, old.rstrip("\n").split("\n"))
    return r"\n\1".join([rf"^( *){first}", *others]) + "$"


def _image(repository: str) -> str:
    return rf"^( *)image: {re.escape(repository)}:\S+$"


def _replaced(text: str, place: str, new: str) -> tuple[str, int]:
    """Return the text with other lines in every such place, and how many there were."""

    def indented(found: re.Match[str]) -> str:
        return "\n".join(found[1] + line for line in new.split("\n"))

    return re.subn(place, indented, text, flags=re.MULTILINE)


def _document(path: str, text: str, of_file: Mapping[str, Any]) -> str:
    """Return one object with the labels and annotations of the chart, and what its kind has besides."""
    (kind,) = re.findall(r"^kind: (\w+)$", text, re.MULTILINE)
    (name,) = re.findall(r"^metadata:\n  name: (\S+)$", text, re.MULTILINE)
    namespaces = of_file.get("bindings", "")
    if kind == "CustomResourceDefinition":
        text = _kept(text)
    elif "\n  labels:\n" not in text.partition("\nspec:\n")[0]:
        text = text.replace("\nmetadata:\n", '\nmetadata:\n  {{- include "muster.meta" . | nindent 2 }}\n')
    if kind.startswith("MutatingAdmissionPolicy"):
        version = 'apiVersion: admissionregistration.k8s.io/{{ include "muster.mutatingPolicies" . }}\n'
        text = text.replace("apiVersion: admissionregistration.k8s.io/v1\n", version)
    if kind.endswith("AdmissionPolicyBinding") and namespaces:
        if "matchResources" in text:
            raise ChartError(f"manifests/{path} says matchResources, which charts/templates.py would have to merge")
        text += f'  {{{{- with include "{namespaces}" . }}}}\n  {{{{- . | nindent 2 }}}}\n  {{{{- end }}}}\n'
    return _when(of_file.get("objects", {}).get(name, ""), text)


def _kept(crd: str) -> str:
    """Return a CRD that Helm upgrades, and leaves when the release is uninstalled: all its objects would go with it."""
    own = '    {{- include "muster.crdAnnotations" . | nindent 4 }}\n'
    labels = '  labels:\n    {{- include "muster.labels" . | nindent 4 }}\n'
    if (given := "\n  annotations:\n") in crd:
        crd = crd.replace(given, given + own, 1)
    else:
        labels += f"  annotations:\n{own}"
    return crd.replace("\nmetadata:\n", f"\nmetadata:\n{labels}")


def _patched(made: dict[str, str]) -> dict[str, str]:
    """Return the templates with what components change in the base, each change under its component's switch."""
    for component in components():
        kustomization = _yaml(MANIFESTS / "components" / component / "kustomization.yaml")
        condition = f".Values.components.{switch(component)}"
        for patch in kustomization.get("patches", ()):
            if "path" in patch:
                changes = _pod_changes(_yaml(MANIFESTS / "components" / component / patch["path"]), made)
            else:
                changes = _match_conditions(patch, made)
            for path, old, added in changes:
                if made[path].count(old) != 1:
                    raise ChartError(
                        f"{path} does not have once what the component {component} is written behind:\n{old}"
                    )
                made[path] = made[path].replace(old, old + _when(condition, added))
    return made


def _pod_changes(patch: dict[str, Any], made: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield what a patch of the Deployment adds: the template, the text before it, and the text."""
    path = "templates/base/deployment.yaml"
    template = patch["spec"]["template"]
    if "metadata" in template:
        (checksum,) = re.findall(r"^ +checksum/config: .*\n", made[path], re.MULTILINE)
        yield path, checksum, _indented(template["metadata"]["annotations"], 8)
    (container,) = template["spec"]["containers"]
    name = container.pop("name")
    # Lists that the base has get more entries; all else is new.
    if mounts := container.pop("volumeMounts", None):
        place = (
            f"            - name: {name}-config\n              mountPath: /etc/{name}\n              readOnly: true\n"
        )
        yield path, place, _indented(mounts, 12)
    if volumes := template["spec"].get("volumes"):
        yield path, "      volumes:\n", _indented(volumes, 8)
    yield path, f"            - --config=/etc/{name}/{name}.yaml\n", _indented(container, 10)


def _match_conditions(patch: dict[str, Any], made: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield what a patch of a policy adds to its matchConditions, in the same form."""
    name = patch["target"]["name"]
    for operation in yaml.safe_load(patch["patch"]):
        if (operation["op"], operation["path"]) != ("add", "/spec/matchConditions/-"):
            raise ChartError(f"charts/templates.py cannot do {operation['op']} {operation['path']} on {name}")
        for path, text in made.items():
            found = re.search(rf"^  name: {name}\nspec:\n.*?(?=^  validations:)", text, re.MULTILINE | re.DOTALL)
            if found:
                yield path, found[0], _named(_indented([operation["value"]], 4)).replace("['muster']", _NAMES)


def _indented(value: object, spaces: int) -> str:
    text = yaml.safe_dump(value, sort_keys=False, width=1000)
    return "".join(f"{' ' * spaces}{line}\n" for line in text.splitlines())


def _named(text: str) -> str:
    return re.sub(r'kube-system(?!")', "{{ .Release.Namespace }}", text)


def _when(condition: str, text: str) -> str:
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text


def _yaml(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded
