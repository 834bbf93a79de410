{{- define "florin.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Name of a component's objects: `serve` has the release's own. */}}
{{- define "florin.name" -}}
{{- $full := include "florin.fullname" .root -}}
{{- if eq .component "serve" -}}{{ $full }}{{- else -}}{{ $full }}-{{ .component }}{{- end -}}
{{- end -}}

{{- define "florin.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "florin.labels" -}}
{{ include "florin.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{/* Image of a component; `tag` is the component's own. */}}
{{- define "florin.image" -}}
{{- $image := .root.Values.image -}}
{{- if and $image.digest (not .tag) -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ .tag | default $image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "florin.pullPolicy" -}}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end -}}
{{- end -}}

{{/* How a pod runs, whatever its component. */}}
{{- define "florin.podSecurity" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "florin.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* Where a component's pods run: apart, so that one machine's end is not the service's. */}}
{{- define "florin.placement" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "florin.selector" . | nindent 8 }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The state folder is Florin's alone, which a mounted secret cannot be. */}}
{{- define "florin.initContainer" -}}
- name: secrets
  image: {{ include "florin.image" . }}
  {{- include "florin.pullPolicy" .root | nindent 2 }}
  command: [/bin/sh, -c]
  args: ['umask 077 && mkdir "$FLORIN_HOME" && cp /run/secrets/secrets.json "$FLORIN_HOME"']
  env: [{name: FLORIN_HOME, value: /var/lib/florin/home}]
  {{- include "florin.containerSecurity" . | nindent 2 }}
  volumeMounts:
    - {name: state, mountPath: /var/lib/florin}
    - {name: secrets, mountPath: /run/secrets, readOnly: true}
{{- end -}}

{{/* Variables of the pods that have a store. */}}
{{- define "florin.storeEnv" -}}
- {name: FLORIN_STORE_FILE, value: /run/store/address}
- {name: FLORIN_HOME, value: /var/lib/florin/home}
- {name: FLORIN_DEMO, value: "false"}
- {name: FLORIN_KEYSTORE_PASSWORD_FILE, value: /run/keystores/password}
{{- range $name, $value := .Values.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* Variables of the pods that callers reach. */}}
{{- define "florin.listenEnv" -}}
- {name: FLORIN_HOST, value: 0.0.0.0}
{{- if .Values.tls.enabled }}
- {name: FLORIN_TLS_CERTIFICATE, value: /run/tls/tls.crt}
- {name: FLORIN_TLS_KEY, value: /run/tls/tls.key}
{{- else }}
- {name: FLORIN_INSECURE_BIND, value: "true"}
{{- end }}
{{- with .Values.trustedProxies }}
- name: FLORIN_TRUSTED_PROXIES
  value: {{ toJson . | quote }}
{{- end }}
{{- end -}}

{{- define "florin.storeMounts" -}}
- {name: state, mountPath: /var/lib/florin}
- {name: store, mountPath: /run/store, readOnly: true}
- {name: settings, mountPath: /etc/florin, readOnly: true}
- {name: keystores, mountPath: /run/keystores, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- end -}}

{{- define "florin.storeVolumes" -}}
- name: settings
  {{- if .Values.configSecret }}
  secret: {secretName: {{ .Values.configSecret }}, defaultMode: 0440}
  {{- else }}
  configMap: {name: {{ include "florin.fullname" . }}}
  {{- end }}
- {name: store, secret: {secretName: {{ .Values.secrets.store }}, defaultMode: 0440}}
- {name: secrets, secret: {secretName: {{ .Values.secrets.installation }}, defaultMode: 0440}}
- {name: keystores, secret: {secretName: {{ .Values.secrets.keystores }}, defaultMode: 0440}}
{{- end -}}

{{/* What is remembered is in the database. */}}
{{- define "florin.scratchVolumes" -}}
- {name: state, emptyDir: {medium: Memory, sizeLimit: 16Mi}}
- {name: tmp, emptyDir: {medium: Memory, sizeLimit: 64Mi}}
{{- end -}}

{{/* Probes of the pods that answer REST; a first start may bring a store to a new schema. */}}
{{- define "florin.restProbes" -}}
{{- $scheme := ternary "HTTPS" "HTTP" .Values.tls.enabled -}}
startupProbe:
  httpGet: {path: /healthz, port: rest, scheme: {{ $scheme }}}
  periodSeconds: 2
  failureThreshold: 150
livenessProbe:
  httpGet: {path: /healthz, port: rest, scheme: {{ $scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: rest, scheme: {{ $scheme }}}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{/* Whether a pod's process answers on its port of metrics, whatever it answers. */}}
{{- define "florin.answers" -}}
exec:
  command:
    - /opt/florin/.venv/bin/python
    - -I
    - -c
    - >-
      import http.client as http;
      link = http.HTTPConnection("127.0.0.1", 9464, timeout=4);
      link.request("HEAD", "/");
      link.getresponse()
{{- end -}}

{{/* Seconds until a pod is killed: drained, open calls answered, leases given back. */}}
{{- define "florin.graceSeconds" -}}
{{- $shutdown := get .Values.env "FLORIN_SHUTDOWN_S" | default "5" | float64 | ceil | int -}}
{{- add (int .Values.drainSeconds) (mul 2 $shutdown) 30 -}}
{{- end -}}

{{/* The proxy that makes /metrics reachable from outside the pod. */}}
{{- define "florin.metricsProxy" -}}
- name: metrics
  image: {{ .Values.metrics.proxyImage }}
  {{- include "florin.pullPolicy" . | nindent 2 }}
  command: [nginx, -e, stderr, -c, /etc/metrics/nginx.conf]
  ports:
    - {name: metrics, containerPort: 9465}
  resources:
    {{- toYaml .Values.metrics.resources | nindent 4 }}
  {{- include "florin.containerSecurity" . | nindent 2 }}
  volumeMounts:
    - {name: metrics, mountPath: /etc/metrics, readOnly: true}
    - {name: metrics-tmp, mountPath: /tmp}
{{- end -}}

{{- define "florin.metricsVolumes" -}}
- {name: metrics, configMap: {name: {{ include "florin.fullname" . }}-metrics}}
- {name: metrics-tmp, emptyDir: {medium: Memory, sizeLimit: 16Mi}}
{{- end -}}

{{/* Fail for values that are each valid, but not together. */}}
{{- define "florin.check" -}}
{{- $values := .Values -}}
{{- if regexMatch "(?m)^\\s*\"?(store|store_standby|gateway_token|keystore_password|password|token)\"?\\s*=" $values.config -}}
{{- fail "config: store, store_standby, gateway_token, keystore_password, and password and token of event_sink are secrets, and a ConfigMap is not secret: put them into the secrets that `secrets` names." -}}
{{- end -}}
{{- if regexMatch "://[^/\\s\"']+@" $values.config -}}
{{- fail "config: an address contains a password, and a ConfigMap is not secret: put florin.toml into a secret and name it in configSecret." -}}
{{- end -}}
{{- range $name, $value := $values.env -}}
{{- if has $name (list "FLORIN_STORE" "FLORIN_STORE_STANDBY" "FLORIN_GATEWAY_TOKEN" "FLORIN_KEYSTORE_PASSWORD" "FLORIN_EVENT_SINK__PASSWORD" "FLORIN_EVENT_SINK__TOKEN") -}}
{{- fail (printf "env.%s: it is a secret, and pods show their variables: put it into the secrets that `secrets` names." $name) -}}
{{- end -}}
{{- if has $name (list "FLORIN_STORE_FILE" "FLORIN_GATEWAY_TOKEN_FILE" "FLORIN_KEYSTORE_PASSWORD_FILE" "FLORIN_HOME" "FLORIN_DEMO" "FLORIN_HOST" "FLORIN_HTTP_PORT" "FLORIN_GRPC_PORT" "FLORIN_METRICS_PORT" "FLORIN_TLS_CERTIFICATE" "FLORIN_TLS_KEY" "FLORIN_INSECURE_BIND" "FLORIN_TRUSTED_PROXIES" "FLORIN_DRAIN_S") -}}
{{- fail (printf "env.%s: the chart sets it; change the chart's value instead." $name) -}}
{{- end -}}
{{- end -}}
{{- if and $values.ingress.enabled (not $values.trustedProxies) -}}
{{- fail "ingress.enabled: set trustedProxies to the networks of the ingress controller; otherwise all callers share one rate limit." -}}
{{- end -}}
{{- if and (not $values.tls.enabled) (not $values.ingress.enabled) (ne $values.service.type "ClusterIP") -}}
{{- fail (printf "tls.enabled: a service of type %s is reachable from outside, and would use plain text: set tls.enabled to true, or service.type to ClusterIP." $values.service.type) -}}
{{- end -}}
{{- if and $values.ingress.enabled (not $values.tls.enabled) (ne $values.service.type "ClusterIP") -}}
{{- fail (printf "service.type: %s bypasses the ingress with plain text: set it to ClusterIP, or tls.enabled to true." $values.service.type) -}}
{{- end -}}
{{- if and $values.gateway.enabled (not $values.secrets.gatewayToken) -}}
{{- fail "gateway.enabled: set secrets.gatewayToken to a secret with the file `token`; otherwise all callers of the gateway share one rate limit." -}}
{{- end -}}
{{- if and $values.gateway.enabled $values.tls.enabled (not $values.gateway.serverName) -}}
{{- fail "gateway.enabled: set gateway.serverName to a name in the certificate of tls.secret." -}}
{{- end -}}
{{- if and $values.gateway.enabled (not $values.tls.enabled) (ne $values.gateway.service.type "ClusterIP") -}}
{{- fail (printf "gateway.service.type: %s is reachable from outside, and would use plain text: set tls.enabled to true, or the type to ClusterIP." $values.gateway.service.type) -}}
{{- end -}}
{{- if and $values.autoscaling.enabled (gt (int $values.autoscaling.minReplicas) (int $values.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling: minReplicas is larger than maxReplicas." -}}
{{- end -}}
{{- if and $values.metrics.serviceMonitor.enabled (not $values.metrics.enabled) -}}
{{- fail "metrics.serviceMonitor.enabled: set metrics.enabled to true too." -}}
{{- end -}}
{{- end -}}
