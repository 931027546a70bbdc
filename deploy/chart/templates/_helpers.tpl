{{- define "qserver.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "qserver.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .side }}
{{- end }}

{{/* OnRootMismatch: the volume is given to the group while it is empty, and not again. `Always` would
     open the journal's files to the group at each mount, and the worker refuses such files. */}}
{{- define "qserver.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "qserver.containerSecurity" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* What every pod says: nobody's token of the API, no variables that a Service brings along
     (QSERVER_PORT of a Service `qserver` would be read as a setting). */}}
{{- define "qserver.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.images.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "qserver.storeUrl" -}}
- name: QSERVER_REDIS_URL
  valueFrom: {secretKeyRef: {name: {{ . }}, key: url}}
{{- end }}

{{/* Variables of a map, in order. */}}
{{- define "qserver.env" -}}
{{- range $name, $value := . }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{- define "qserver.otel" -}}
{{- with .root.Values.otel.endpoint }}
- {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ . | quote }}}
- {name: OTEL_TRACES_EXPORTER, value: otlp}
- {name: OTEL_SERVICE_NAME, value: qserver-{{ $.side }}}
{{- end }}
{{- end }}

{{/* Rules of a NetworkPolicy: names of hosts, the store, the collector. */}}
{{- define "qserver.egress" -}}
- to: {{- toYaml .Values.networkPolicy.dns | nindent 4 }}
  ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
- to: {{- include "qserver.named" (dict "list" .Values.store.allowTo "said" "store.allowTo must say where the store is: [{ipBlock: {cidr: 10.0.0.5/32}}], or a podSelector") | nindent 4 }}
  ports:
    {{- range .Values.store.ports }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
{{- if .Values.otel.endpoint }}
- to: {{- include "qserver.named" (dict "list" .Values.otel.allowTo "said" "otel.allowTo must say where the collector is, with otel.endpoint") | nindent 4 }}
  ports: [{port: {{ .Values.otel.port }}, protocol: TCP}]
{{- end }}
{{- end }}

{{/* A list that must not be empty: `to: []` of a NetworkPolicy is everywhere. */}}
{{- define "qserver.named" -}}
{{- if not .list }}{{ fail .said }}{{ end }}
{{- toYaml .list }}
{{- end }}
