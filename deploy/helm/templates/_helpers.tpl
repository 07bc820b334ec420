{{- define "belvedere.name" -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "belvedere.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "belvedere.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* What both kinds of pods have in common; in: root, role. */}}
{{- define "belvedere.pod" -}}
metadata:
  labels:
    {{- include "belvedere.selector" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
  annotations:
    checksum/files: {{ toYaml .root.Values.files | sha256sum }}
    {{- with .root.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 120
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: belvedere
      image: "{{ .root.Values.image.repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}"
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args:
        - {{ .role }}
        - {{ .root.Values.script | quote }}
        - --host=0.0.0.0
        - --port=8080
        - --log=json
        {{- with .root.Values.profile }}
        - --profile={{ . }}
        {{- end }}
        {{- if eq .role "run" }}
        {{- if gt (int .root.Values.replicas) 1 }}
        - --standby
        {{- end }}
        {{- range .root.Values.arguments }}
        - {{ . | quote }}
        {{- end }}
        {{- end }}
      env:
        - {name: HOME, value: /tmp}
        {{- range $name, $value := .root.Values.environment }}
        - name: {{ $name }}
          value: {{ $value | quote }}
        {{- end }}
      {{- with .root.Values.secretName }}
      envFrom:
        - secretRef: {name: {{ . }}}
      {{- end }}
      ports:
        - {name: http, containerPort: 8080}
      startupProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 5
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 15
        timeoutSeconds: 5
        failureThreshold: 4
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 5
        timeoutSeconds: 5
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources:
        {{- toYaml .resources | nindent 8 }}
      volumeMounts:
        - {name: project, mountPath: /project}
        - {name: tmp, mountPath: /tmp}
        {{- range $name, $_ := .root.Values.files }}
        - {name: files, mountPath: {{ printf "/project/%s" $name | quote }}, subPath: {{ $name | quote }}, readOnly: true}
        {{- end }}
  {{- with .root.Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .root.Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .root.Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if and (eq .role "run") (gt (int .root.Values.replicas) 1) }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "belvedere.selector" .root | nindent 10 }}
          app.kubernetes.io/component: run
  {{- end }}
  volumes:
    - {name: tmp, emptyDir: {}}
    - name: files
      configMap: {name: {{ include "belvedere.name" .root }}-files}
{{- end -}}
