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

{{- define "wardline.labels" -}}
{{ include "wardline.selectorLabels" . }}
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
{{- $all := dict "DATABASE_URL" .Values.database "BACKPLANE_URL" .Values.backplane "WARDLINE_SECRET" .Values.masterSecret "WARDLINE_API_KEY" .Values.apiKey "TRUST_RPC_URL" .Values.chainNode "TRUST_SIGNER_URL" .Values.signer -}}
{{- $given := dict -}}
{{- range $name, $reference := merge $all .Values.alerts -}}
{{- if $reference.secretName -}}{{- $_ := set $given $name $reference -}}{{- end -}}
{{- end -}}
{{- toYaml $given -}}
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
{{- end -}}
