{{/* Labels of every object; `linkerd check` looks for the first. */}}
{{- define "linkerd-cni.labels" -}}
linkerd.io/cni-resource: "true"
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "linkerd-cni.created-by" -}}
linkerd.io/created-by: {{ .Values.cliVersion | default (printf "linkerd/helm %s" .Chart.AppVersion) | quote }}
{{- end }}

{{- define "linkerd-cni.image" -}}
{{ .Values.image.name }}:{{ .Values.image.version | default .Chart.AppVersion }}
{{- end }}

{{/* The items of a list that is written with commas, as JSON; one port may be a number. */}}
{{- define "linkerd-cni.items" -}}
{{- $items := list }}
{{- range splitList "," (toString .) }}
{{- with trim . }}{{ $items = append $items . }}{{ end }}
{{- end }}
{{- toJson $items }}
{{- end }}

{{/* The same for a list of single ports, as numbers. */}}
{{- define "linkerd-cni.ports" -}}
{{- $ports := list }}
{{- range include "linkerd-cni.items" . | fromJsonArray }}
{{- $ports = append $ports (int .) }}
{{- end }}
{{- toJson $ports }}
{{- end }}

{{/* The plugin's network configuration. Made as JSON from values, so that no value can break out. */}}
{{- define "linkerd-cni.config" -}}
{{- $values := .Values }}
{{- $inbound := list (toString $values.proxyAdminPort) (toString $values.proxyControlPort) }}
{{- $linkerd := dict
  "incoming-proxy-port" (int $values.inboundProxyPort)
  "outgoing-proxy-port" (int $values.outboundProxyPort)
  "proxy-uid" (int64 $values.proxyUID)
  "ports-to-redirect" (include "linkerd-cni.ports" $values.portsToRedirect | fromJsonArray)
  "inbound-ports-to-ignore" (include "linkerd-cni.items" $values.ignoreInboundPorts | fromJsonArray | concat $inbound)
  "outbound-ports-to-ignore" (include "linkerd-cni.items" $values.ignoreOutboundPorts | fromJsonArray)
  "subnets-to-ignore" $values.ignoreSubnets
  "simulate" false
  "use-wait-flag" $values.useWaitFlag
  "iptables-mode" $values.iptablesMode
  "ipv6" (not $values.disableIPv6) }}
{{- if ge (int64 $values.proxyGID) 0 }}
{{- $_ := set $linkerd "proxy-gid" (int64 $values.proxyGID) }}
{{- end }}
{{- /* Keys of our own are only there if they say something: lists on nodes stay as they are. */}}
{{- with include "linkerd-cni.ports" $values.outboundPortsToRedirect | fromJsonArray }}
{{- $_ := set $linkerd "outbound-ports-to-redirect" . }}
{{- end }}
{{- with $values.ignoreOutboundSubnets }}
{{- $_ := set $linkerd "outbound-subnets-to-ignore" . }}
{{- end }}
{{- with $values.ignoreInterfaces }}
{{- $_ := set $linkerd "interfaces-to-ignore" . }}
{{- end }}
{{- $kubernetes := dict "kubeconfig" "__KUBECONFIG_FILEPATH__" }}
{{- with $values.excludeNamespaces }}
{{- $_ := set $kubernetes "exclude-namespaces" . }}
{{- end }}
{{- $config := dict
  "name" "linkerd-cni"
  "type" "linkerd-cni"
  "log_level" $values.logLevel
  "kubernetes" $kubernetes
  "linkerd" $linkerd }}
{{- with $values.logFile }}
{{- $_ := set $config "log_file" . }}
{{- $_ := set $config "log_file_max_bytes" (int64 $values.logFileMaxBytes) }}
{{- end }}
{{- toPrettyJson $config }}
{{- end }}

{{/* The host's directories that are mounted, by the names of their volumes. */}}
{{- define "linkerd-cni.mounts" -}}
{{- $net := .Values.destCNINetDir }}
{{- $bin := .Values.destCNIBinDir }}
{{- $mounts := dict "cni-net-dir" $net }}
{{- if ne $bin $net }}{{ $_ := set $mounts "cni-bin-dir" $bin }}{{ end }}
{{- with .Values.hostMountDir | trimSuffix "/" }}
{{- $above := printf "%s/" . }}
{{- if not (and (hasPrefix $above $net) (hasPrefix $above $bin)) }}
{{- fail "hostMountDir: destCNINetDir and destCNIBinDir have to be below it" }}
{{- end }}
{{- $mounts = dict "host-dir" . }}
{{- end }}
{{- toYaml $mounts }}
{{- end }}

{{/* A pod that did not tolerate the startup taint could not come to remove it. */}}
{{- define "linkerd-cni.tolerations" -}}
{{- $tolerations := .Values.tolerations | default list }}
{{- $all := false }}
{{- range $tolerations }}
{{- if and (eq (.operator | default "") "Exists") (not .key) (not .effect) }}{{ $all = true }}{{ end }}
{{- end }}
{{- if and .Values.startupTaint (not $all) }}
{{- $tolerations = append $tolerations (dict "key" .Values.startupTaint "operator" "Exists") }}
{{- end }}
{{- toYaml $tolerations }}
{{- end }}

{{/* Requests and limits, from the present chart's form. */}}
{{- define "linkerd-cni.resources" -}}
{{- $limits := dict }}
{{- $requests := dict }}
{{- range $name, $amount := .Values.resources }}
{{- with $amount.limit }}{{ $_ := set $limits $name (toString .) }}{{ end }}
{{- with $amount.request }}{{ $_ := set $requests $name (toString .) }}{{ end }}
{{- end }}
{{- $resources := dict }}
{{- with $limits }}{{ $_ := set $resources "limits" . }}{{ end }}
{{- with $requests }}{{ $_ := set $resources "requests" . }}{{ end }}
{{- toYaml $resources }}
{{- end }}

{{- define "linkerd-cni.admin-port" -}}
{{ splitList ":" .Values.adminAddress | last }}
{{- end }}

{{/* The address to probe; empty means the pod's own. */}}
{{- define "linkerd-cni.admin-host" -}}
{{- $host := .Values.adminAddress | trimSuffix (printf ":%s" (include "linkerd-cni.admin-port" .)) | trimAll "[]" }}
{{- if not (has $host (list "0.0.0.0" "::")) }}{{ $host }}{{ end }}
{{- end }}
