{{- define "wardline.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "wardline.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Another name than the service has, whose Service and ServiceMonitor must not select the gateway. */}}
{{- define "wardline.gatewaySelectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-gateway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "wardline.labels" -}}
{{ include "wardline.selectorLabels" . }}
{{ include "wardline.commonLabels" . }}
{{- end -}}

{{- define "wardline.gatewayLabels" -}}
{{ include "wardline.gatewaySelectorLabels" . }}
{{ include "wardline.commonLabels" . }}
{{- end -}}

{{- define "wardline.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "wardline.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "wardline.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* "yes" when there may be several processes, else empty. */}}
{{- define "wardline.several" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) -}}yes{{- end -}}
{{- end -}}

{{/* The host names that are answered: those of the service in the cluster, of the ingress, and what settings add. */}}
{{- define "wardline.hosts" -}}
{{- $name := include "wardline.fullname" . -}}
{{- $local := printf "%s.%s" $name .Release.Namespace -}}
{{- $hosts := list $name $local (printf "%s.svc" $local) (printf "%s.svc.cluster.local" $local) -}}
{{- if .Values.ingress.enabled -}}{{- $hosts = append $hosts .Values.ingress.host -}}{{- end -}}
{{- with get .Values.settings "WARDLINE_ALLOWED_HOSTS" -}}{{- $hosts = append $hosts . -}}{{- end -}}
{{- join "," $hosts -}}
{{- end -}}

{{/* The settings that come from Secrets, by name; only those that are given. */}}
{{- define "wardline.secrets" -}}
{{- $all := dict "DATABASE_URL" .Values.database "BACKPLANE_URL" .Values.backplane "WARDLINE_SECRET" .Values.masterSecret "WARDLINE_API_KEY" .Values.apiKey "TRUST_RPC_URL" .Values.chainNode "TRUST_SIGNER_URL" .Values.signer "WARDLINE_OIDC_CLIENT_SECRET" .Values.identityProvider -}}
{{- $given := dict -}}
{{- range $name, $reference := merge $all .Values.alerts -}}
{{- if $reference.secretName -}}{{- $_ := set $given $name $reference -}}{{- end -}}
{{- end -}}
{{- toYaml $given -}}
{{- end -}}

{{/* What every container is started from, and may do. */}}
{{- define "wardline.container" -}}
image: "{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
lifecycle:
  preStop:
    # Until every proxy has heard that this pod goes.
    exec:
      command: [sleep, '5']
{{- end -}}

{{/* What every pod is, besides its containers, volumes and place. */}}
{{- define "wardline.pod" -}}
serviceAccountName: {{ include "wardline.serviceAccountName" . }}
automountServiceAccountToken: false
# Kubernetes would set WARDLINE_SERVICE_HOST and others beside it; the service refuses names that it does not know.
enableServiceLinks: false
# preStop, then the ten seconds that stopping takes, and a margin.
terminationGracePeriodSeconds: 40
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A volume of files from Secrets, given by the name of the file. */}}
{{- define "wardline.secretVolume" -}}
projected:
  defaultMode: 0440
  sources:
    {{- range $name, $reference := . }}
    - secret:
        name: {{ $reference.secretName }}
        items:
          - key: {{ $reference.key }}
            path: {{ $name }}
    {{- end }}
{{- end -}}

{{/* The ports of the providers in gateway.file, as the ports of a NetworkPolicy. */}}
{{- define "wardline.providerPorts" -}}
{{- $ports := dict -}}
{{- range $name, $upstream := (fromYaml .Values.gateway.file).upstreams -}}
{{- $url := urlParse $upstream.url -}}
{{- $given := regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) -}}
{{- $_ := set $ports (default (ternary "80" "443" (eq $url.scheme "http")) $given) true -}}
{{- end -}}
{{- range $port := keys $ports | sortAlpha }}
- port: {{ $port }}
{{- end -}}
{{- end -}}

{{/* Refuses what would start, and then lose events or kills. */}}
{{- define "wardline.check" -}}
{{- if and (include "wardline.several" .) (not .Values.database.secretName) -}}
{{- fail "Several processes cannot share a SQLite file: set database.secretName to a Secret with the address of a PostgreSQL database, or replicas to 1 and autoscaling.enabled to false." -}}
{{- end -}}
{{- if and (include "wardline.several" .) (not .Values.backplane.secretName) -}}
{{- fail "Several processes must hear of each other's kills and events: set backplane.secretName to a Secret with the address of a Redis." -}}
{{- end -}}
{{- if and .Values.backplane.secretName (not .Values.database.secretName) -}}
{{- fail "A backplane connects several processes, which cannot share a SQLite file: set database.secretName as well, or leave backplane.secretName empty." -}}
{{- end -}}
{{- if and .Values.database.secretName (not .Values.masterSecret.secretName) -}}
{{- fail "With PostgreSQL nothing is kept beside the database: set masterSecret.secretName, or the generated master secret would be lost with the pod, and every decoy with it." -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas is greater than autoscaling.maxReplicas." -}}
{{- end -}}
{{- if .Values.gateway.enabled -}}
{{- if not .Values.database.secretName -}}
{{- fail "The model gateway shares a PostgreSQL database with the service: set database.secretName, or gateway.enabled to false." -}}
{{- end -}}
{{- $file := fromYaml .Values.gateway.file -}}
{{- with $file.Error -}}{{- fail (printf "gateway.file: %s" .) -}}{{- end -}}
{{- if not $file.upstreams -}}
{{- fail "gateway.file names no upstreams: set it to the text of gateway.yaml, as docs/guide/gateway.md describes it." -}}
{{- end -}}
{{- $mounted := list -}}
{{- range $key, $_ := .Values.gateway.keys -}}{{- $mounted = append $mounted (printf "/run/secrets/gateway/%s" $key) -}}{{- end -}}
{{- range $name, $upstream := $file.upstreams -}}
{{- if not (has $upstream.key_file $mounted) -}}
{{- fail (printf "gateway.file: key_file of %s must be /run/secrets/gateway/ and a name in gateway.keys, which are the files in the container." $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
