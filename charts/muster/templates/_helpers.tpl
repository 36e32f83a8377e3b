{{/* The labels of every object. */}}
{{- define "muster.labels" -}}
{{- include "muster.labelsWith" (list . dict) }}
{{- end }}

{{/* And others besides. Nobody changes the label that the selectors are about. */}}
{{- define "muster.labelsWith" -}}
{{- $root := first . -}}
{{- $name := dict "app.kubernetes.io/name" "muster" -}}
{{- $labels := dict
  "app.kubernetes.io/part-of" "muster"
  "app.kubernetes.io/instance" $root.Release.Name
  "app.kubernetes.io/version" $root.Chart.AppVersion
  "app.kubernetes.io/managed-by" $root.Release.Service
  "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") -}}
{{- toYaml (mergeOverwrite $labels ($root.Values.commonLabels | default dict) (last . | default dict) $name) }}
{{- end }}

{{/* The annotations of every object: nothing where there are none. */}}
{{- define "muster.annotations" -}}
{{- with .Values.commonAnnotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "muster.meta" -}}
labels:
  {{- include "muster.labels" . | nindent 2 }}
{{- with include "muster.annotations" . }}
{{ . }}
{{- end }}
{{- end }}

{{/* CRDs are templates and no files in crds/, which Helm would never upgrade. Uninstalling leaves them, and so all queues and PodGroups. */}}
{{- define "muster.crdAnnotations" -}}
helm.sh/resource-policy: keep
{{- with .Values.commonAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The fields image and imagePullPolicy of a container. */}}
{{- define "muster.image" -}}
{{- include "muster.imageOf" (dict "root" . "image" .Values.image "tag" (.Values.image.tag | default .Chart.AppVersion)) }}
{{- end }}

{{- define "muster.schedulerImage" -}}
{{- include "muster.imageOf" (dict "root" . "image" .Values.kubeScheduler.image "tag" (include "muster.schedulerTag" .)) }}
{{- end }}

{{- define "muster.imageOf" -}}
{{- $tagged := printf "%s:%s" .image.repository .tag -}}
{{- $released := get (.root.Files.Get "files/images.yaml" | fromYaml).digests $tagged -}}
{{- if .image.digest -}}
image: {{ .image.repository }}@{{ .image.digest }}
{{- else -}}
image: {{ $tagged }}{{ with $released }}@{{ . }}{{ end }}
{{- end }}
{{- with .image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}

{{/* The release of kube-scheduler: that of the API server's minor version. A newer API server takes the newest one. */}}
{{- define "muster.schedulerTag" -}}
{{- $tested := .Files.Get "files/images.yaml" | fromYaml -}}
{{- $server := semver .Capabilities.KubeVersion.Version -}}
{{- $newer := semverCompare (printf ">%s" $tested.newest) (printf "%d.%d.0" $server.Major $server.Minor) -}}
{{- $tag := .Values.kubeScheduler.image.tag | default (ternary $tested.newest (get $tested.releases (printf "%d.%d" $server.Major $server.Minor)) $newer) -}}
{{- if not (or $tag .Values.kubeScheduler.image.digest) -}}
{{- fail (printf "The API server is %s: set kubeScheduler.image.tag to a kube-scheduler of its minor version (docs/install.md, Which Kubernetes)." .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- with $tag | regexFind "^v?[0-9]+\\.[0-9]+" | trimPrefix "v" -}}
{{- if semverCompare (printf ">%d.%d.0" $server.Major $server.Minor) (printf "%s.0" .) -}}
{{- fail (printf "kubeScheduler.image.tag is %s, and the API server %s: kube-scheduler may not be newer (docs/install.md, Which Kubernetes)." $tag $.Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- end -}}
{{- $tag -}}
{{- end }}

{{/* Muster starts the gangs: the groups that Kubernetes makes for its Jobs are none of kube-scheduler's here. 1.34 does not know this gate,
     and does not start with it. */}}
{{- define "muster.featureGates" -}}
{{- $minor := include "muster.schedulerTag" . | regexFind "^v?[0-9]+\\.[0-9]+" | trimPrefix "v" | default "1.35" -}}
{{- if semverCompare ">=1.35.0" (printf "%s.0" $minor) -}}
- --feature-gates=GenericWorkload=false
{{- end -}}
{{- end }}

{{/* The schedulers, as a list in CEL. */}}
{{- define "muster.schedulerNames" -}}
[{{ range $index, $name := .Values.schedulerNames }}{{ if $index }}, {{ end }}'{{ $name }}'{{ end }}]
{{- end }}

{{/* The version in which the API server serves MutatingAdmissionPolicies. */}}
{{- define "muster.mutatingPolicies" -}}
{{- if semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version -}}
v1
{{- else if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy" -}}
v1beta1
{{- else -}}
{{- fail (printf "The API server is %s and serves no MutatingAdmissionPolicy: set components.admissionGate=false and components.jobAdmission=false (docs/install.md, Older API servers)." .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- end }}

{{/* Its CEL has no lists library: the policies on jobs cannot be compiled. */}}
{{- define "muster.checkJobAdmission" -}}
{{- if and .Values.components.jobAdmission (semverCompare "<1.35.0-0" .Capabilities.KubeVersion.Version) -}}
{{- fail (printf "The API server is %s, and jobAdmission needs 1.35: set components.jobAdmission=false (docs/install.md, Which Kubernetes)." .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- end }}

{{/* Where the policies on jobs and pods are in force; nothing: everywhere. */}}
{{- define "muster.namespaces" -}}
{{- include "muster.matchResources" (dict "excluded" .Values.admission.excludedNamespaces "selectors" (list .Values.admission.namespaceSelector)) }}
{{- end }}

{{- define "muster.gatedNamespaces" -}}
{{- $admission := .Values.admission -}}
{{- include "muster.matchResources" (dict "excluded" $admission.excludedNamespaces "selectors" (list $admission.namespaceSelector $admission.gateNamespaceSelector)) }}
{{- end }}

{{- define "muster.matchResources" -}}
{{- $expressions := list -}}
{{- with .excluded -}}
{{- $expressions = append $expressions (dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" .) -}}
{{- end -}}
{{- range compact .selectors -}}
{{- range $key, $value := .matchLabels -}}
{{- $expressions = append $expressions (dict "key" $key "operator" "In" "values" (list $value)) -}}
{{- end -}}
{{- $expressions = concat $expressions (.matchExpressions | default list) -}}
{{- end -}}
{{- with $expressions -}}
matchResources:
  namespaceSelector:
    matchExpressions:
      {{- toYaml . | nindent 6 }}
{{- end }}
{{- end }}

{{/* The settings of Muster, as a YAML document. */}}
{{- define "muster.settings" -}}
{{- range $key, $instead := dict "scheduler_names" "schedulerNames" "leader_election" "nothing: the chart sets it" "metrics_port" "components.monitoring" -}}
{{- if hasKey ($.Values.config | default dict) $key -}}
{{- fail (printf "config.%s is not for you to set; set %s" $key $instead) -}}
{{- end -}}
{{- end -}}
{{- $settings := .Files.Get "files/muster.yaml" | fromYaml -}}
{{- $_ := set $settings "scheduler_names" .Values.schedulerNames -}}
{{- $_ := set $settings.leader_election "namespace" .Release.Namespace -}}
{{- toYaml (mergeOverwrite $settings (deepCopy (.Values.config | default dict))) }}
{{- end }}

{{/* The configuration of kube-scheduler, whose extenders are where the settings have Muster listen and hold. */}}
{{- define "muster.schedulerConfig" -}}
{{- range $key := list "profiles" "extenders" "leaderElection" -}}
{{- if hasKey ($.Values.kubeScheduler.config | default dict) $key -}}
{{- fail (printf "kubeScheduler.config.%s is set by the chart; schedulerNames and config are where it comes from" $key) -}}
{{- end -}}
{{- end -}}
{{- $settings := include "muster.settings" . | fromYaml -}}
{{- $config := .Files.Get "files/kube-scheduler-config.yaml" | fromYaml -}}
{{- $profiles := list -}}
{{- range .Values.schedulerNames -}}
{{- $profiles = append $profiles (mergeOverwrite (deepCopy (first $config.profiles)) (dict "schedulerName" .)) -}}
{{- end -}}
{{- $_ := set $config "profiles" $profiles -}}
{{- $_ := set $config.leaderElection "resourceNamespace" .Release.Namespace -}}
{{- range $config.extenders -}}
{{- $_ := set . "urlPrefix" (printf "http://127.0.0.1:%v" $settings.listen_port) -}}
{{- if .bindVerb -}}
{{- $_ := set . "httpTimeout" (printf "%vs" $settings.bind_timeout_s) -}}
{{- end -}}
{{- end -}}
{{- toYaml (mergeOverwrite $config (deepCopy (.Values.kubeScheduler.config | default dict))) }}
{{- end }}

{{/* The Prometheus that says how busy GPUs are; empty without one. */}}
{{- define "muster.prometheusUrl" -}}
{{- get (.Values.config | default dict) "prometheus_url" -}}
{{- end }}

{{/* The port of its URL. */}}
{{- define "muster.prometheusPort" -}}
{{- with include "muster.prometheusUrl" . -}}
{{- regexFind ":[0-9]+$" (urlParse .).host | trimPrefix ":" | default (ternary "443" "80" (hasPrefix "https:" .)) -}}
{{- else -}}
9090
{{- end -}}
{{- end }}
