{{- define "kube-ipvs-proxy.name" -}}
{{ .Values.nameOverride | default "kube-ipvs-proxy" }}{{ .Values.nameSuffix }}
{{- end }}

{{- define "kube-ipvs-proxy.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "kube-ipvs-proxy.name" .) }}
{{- end }}

{{/* Of all Pods of all releases: monitors select them by the first label. */}}
{{- define "kube-ipvs-proxy.selector" -}}
k8s-app: kube-ipvs-proxy
{{- $name := include "kube-ipvs-proxy.name" . }}
{{- if ne $name "kube-ipvs-proxy" }}
kube-ipvs-proxy/name: {{ $name }}
{{- end }}
{{- end }}

{{- define "kube-ipvs-proxy.labels" -}}
app.kubernetes.io/name: kube-ipvs-proxy
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* metadata of an object: root, and name, labels and annotations of the object's own; cluster is true without a namespace. */}}
{{- define "kube-ipvs-proxy.metadata" -}}
name: {{ .name | default (include "kube-ipvs-proxy.name" .root) }}
{{- if not .cluster }}
namespace: {{ .root.Release.Namespace }}
{{- end }}
labels:
  {{- toYaml (merge (include "kube-ipvs-proxy.labels" .root | fromYaml) (.labels | default dict)) | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "kube-ipvs-proxy.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (printf "v%s" .Chart.AppVersion) }}
{{- with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* helm template, Argo CD and Flux's dry runs see no cluster: an address must then be a value. */}}
{{- define "kube-ipvs-proxy.apiServer" -}}
{{- $server := .Values.apiServer -}}
{{- if gt (len (compact (list $server (join "" .Values.apiServers) .Values.kubeletKubeconfig))) 1 -}}
  {{- fail "\n\nSet one of apiServer, apiServers and kubeletKubeconfig: all say where the API server is.\n" -}}
{{- end -}}
{{- with .Values.apiServers -}}
  {{- /* The flag --master has all of them. */ -}}
  {{- $server = first . -}}
{{- end -}}
{{- if .Values.kubeletKubeconfig -}}
  {{- /* The flag --master-kubeconfig replaces it. */ -}}
  {{- $server = "https://server-of-the-kubelet.invalid" -}}
{{- end -}}
{{- if not $server -}}
  {{- $info := lookup "v1" "ConfigMap" "kube-public" "cluster-info" -}}
  {{- range (($info.data).kubeconfig | default "{}" | fromYaml).clusters -}}
    {{- $server = .cluster.server -}}
  {{- end -}}
{{- end -}}
{{- if not $server -}}
  {{- $reason := ternary "This cluster has no ConfigMap kube-public/cluster-info." "Without access to the cluster, as with helm template and Argo CD, the chart cannot read the address of the API server." (not (empty (lookup "v1" "Namespace" "" "kube-system"))) -}}
  {{- fail (printf "\n\n%s Set a URL that is reachable without Services:\n  --set apiServer=https://HOST:6443\nOr have each node take the kubelet's, from the file that the kubelet uses:\n  --set kubeletKubeconfig=/etc/kubernetes/kubelet.conf\n" $reason) -}}
{{- end -}}
{{ $server }}
{{- end }}

{{/*
The files of the configuration are annotations of the Pod, not a ConfigMap. So a Pod of the old revision keeps its own
until it is replaced, whatever was pruned meanwhile, and a new revision reaches a node with its new Pod only.
*/}}
{{- define "kube-ipvs-proxy.configFiles" -}}
kube-ipvs-proxy/config.conf: |
  {{- merge .Values.config (dict "apiVersion" "kubeproxy.config.k8s.io/v1alpha1" "kind" "KubeProxyConfiguration") | toYaml | nindent 2 }}
  {{- with .Values.ownConfig }}
  ---
  {{- merge . (dict "apiVersion" "kube-ipvs-proxy/v1alpha1" "kind" "KubeIPVSProxyConfiguration") | toYaml | nindent 2 }}
  {{- end }}
kube-ipvs-proxy/kubeconfig.conf: |
  apiVersion: v1
  kind: Config
  clusters:
    - name: cluster
      cluster:
        server: {{ include "kube-ipvs-proxy.apiServer" . }}
        certificate-authority: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt
  users:
    - name: service-account
      user:
        tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
  contexts:
    - name: default
      context:
        cluster: cluster
        user: service-account
  current-context: default
{{- end }}

{{- define "kube-ipvs-proxy.configVolume" -}}
- name: config
  downwardAPI:
    items:
      {{- range list "config.conf" "kubeconfig.conf" }}
      - path: {{ . }}
        fieldRef:
          fieldPath: metadata.annotations['kube-ipvs-proxy/{{ . }}']
      {{- end }}
{{- end }}

{{- define "kube-ipvs-proxy.kubeletVolume" -}}
{{- with .Values.kubeletKubeconfig }}
- name: kubelet-kubeconfig
  hostPath:
    path: {{ . }}
    type: File
{{- end }}
{{- end }}

{{- define "kube-ipvs-proxy.kubeletMount" -}}
{{- with .Values.kubeletKubeconfig }}
# Only the server is read from it.
- name: kubelet-kubeconfig
  mountPath: {{ . }}
  readOnly: true
{{- end }}
{{- end }}

{{/* The port of a field of the configuration such as healthzBindAddress, or its default. */}}
{{- define "kube-ipvs-proxy.port" -}}
{{ regexFind "[0-9]+$" (regexFind ":[0-9]+$" (.address | default "")) | default .port }}
{{- end }}

{{/* The probes ask the node's address, as load balancers of clouds do. */}}
{{- define "kube-ipvs-proxy.healthPort" -}}
{{- $address := .Values.config.healthzBindAddress | default "0.0.0.0:10256" -}}
{{- if regexMatch "^(127\\.|localhost|\\[?::1)" $address -}}
  {{- fail (printf "\n\nLoad balancers and probes cannot reach %s. Set an address of the node:\n  --set config.healthzBindAddress=0.0.0.0:10256\n" $address) -}}
{{- end -}}
{{ include "kube-ipvs-proxy.port" (dict "address" $address "port" 10256) }}
{{- end }}

{{/* Refuses flags that would have no effect. */}}
{{- define "kube-ipvs-proxy.checkArgs" -}}
{{- $flags := .Files.Get "files/flags.json" | fromJson -}}
{{- range .Values.extraArgs -}}
  {{- $name := ternary (regexFind "^--[^=]*" . | trimPrefix "--") (trunc 2 . | trimPrefix "-") (hasPrefix "--" .) -}}
  {{- if not (hasKey $flags $name) -}}
    {{- fail (printf "\n\nextraArgs: there is no flag %s. docs/flags.md lists all.\n" .) -}}
  {{- end -}}
  {{- with get $flags $name -}}
    {{- fail (printf "\n\nextraArgs: remove --%s: %s\n" $name .) -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{- define "kube-ipvs-proxy.preparePods" -}}
{{- if .Values.preparePods.enabled }}
{{- if eq .Values.overlay "restricted" }}
{{- fail "\n\nPods can be prepared by the overlay privileged only, because their network namespaces must be entered:\n  --set overlay=privileged\n" }}
{{- end }}
- --dsr-prepare-pods
{{- if ne .Values.preparePods.namespaceFolder "/var/run/netns" }}
- --dsr-netns-dir={{ .Values.preparePods.namespaceFolder }}
{{- end }}
{{- end }}
{{- end }}

{{- define "kube-ipvs-proxy.args" -}}
{{- include "kube-ipvs-proxy.checkArgs" . -}}
- --config=/etc/kube-ipvs-proxy/config.conf
- --hostname-override=$(NODE_NAME)
{{- with .Values.kubeletKubeconfig }}
- --master-kubeconfig={{ . }}
{{- end }}
{{- with .Values.apiServers }}
- --master={{ join "," . }}
{{- end }}
{{- with include "kube-ipvs-proxy.preparePods" . }}
{{ . }}
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "kube-ipvs-proxy.env" -}}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* securityContext of the main container. */}}
{{- define "kube-ipvs-proxy.rights" -}}
{{- if eq .Values.overlay "restricted" }}
privileged: false
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
# A container's capabilities are effective for root only.
runAsUser: 0
capabilities:
  drop: [ALL]
  # NET_RAW: iptables opens a raw socket to read the version of ipset; it sends no packets on it.
  add: [NET_ADMIN, NET_RAW]
{{- else }}
privileged: true
{{- end }}
{{- end }}

{{/* securityContext of containers that only ask or wait. */}}
{{- define "kube-ipvs-proxy.noRights" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65534
seccompProfile:
  type: RuntimeDefault
capabilities:
  drop: [ALL]
{{- end }}

{{/* Which nodes, and how their Pods are started: for the DaemonSet and for Pods that check or clean up a node. */}}
{{- define "kube-ipvs-proxy.placement" -}}
{{- include "kube-ipvs-proxy.placementWithoutTolerations" . }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Of a Job: a toleration of everything would let it start on a node that is dead, which has a taint of NoExecute. */}}
{{- define "kube-ipvs-proxy.placementOfJob" -}}
{{- include "kube-ipvs-proxy.placementWithoutTolerations" . }}
{{- with .Values.tolerations }}
tolerations:
{{- range . }}
{{- $toleration := . }}
{{- if not .key }}
{{- $toleration = merge (dict "effect" "NoSchedule") . }}
{{- end }}
  - {{- toYaml $toleration | nindent 4 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "kube-ipvs-proxy.placementWithoutTolerations" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Prometheus on another host cannot reach a loopback address. */}}
{{- define "kube-ipvs-proxy.metricsPort" -}}
{{- $address := .Values.config.metricsBindAddress | default "127.0.0.1:10249" -}}
{{- if regexMatch "^(127\\.|localhost|\\[?::1)" $address -}}
  {{- fail (printf "\n\nPrometheus cannot reach the metrics on %s. To use podMonitor or serviceMonitor, set an address of the node:\n  --set config.metricsBindAddress=0.0.0.0:10249\n" $address) -}}
{{- end -}}
{{ include "kube-ipvs-proxy.port" (dict "address" $address "port" 10249) }}
{{- end }}

{{/* The labels that the alerts and the dashboard expect. */}}
{{- define "kube-ipvs-proxy.relabelings" -}}
- targetLabel: job
  replacement: {{ .Values.jobLabel }}
- targetLabel: service_proxy
  replacement: kube-ipvs-proxy
- sourceLabels: [__meta_kubernetes_pod_node_name]
  targetLabel: instance
{{- end }}
