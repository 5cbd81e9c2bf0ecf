import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { parseAllDocuments } from 'yaml'

// Renders the chart with the real Helm, 3 or 4, and looks at what comes out. Helm is no part of the set-up, so this is
// no part of the tests: node deploy/check-helm.ts [path of helm]

const helm = process.argv[2] ?? 'helm'
const chart = fileURLToPath(new URL('helm/wardline', import.meta.url))

// biome-ignore lint/suspicious/noExplicitAny: what is looked into are manifests of any kind
type Manifest = any

function run(command: string, values: string[]) {
  const sets = values.flatMap((value) => ['--set', value])
  const result = spawnSync(helm, [command, ...(command === 'lint' ? ['--strict'] : ['w']), chart, ...sets], {
    encoding: 'utf8',
  })
  if (result.error) throw result.error
  return result
}

/** The manifests of one part, by kind. */
function renderPart(name: string, ...values: string[]): Record<string, Manifest> {
  const { status, stdout, stderr } = run('template', values)
  assert.equal(status, 0, stderr)
  // Helm and Kubernetes read YAML 1.1, in which 0440 is octal.
  const documents = parseAllDocuments(stdout, { version: '1.1' }).map((document) => document.toJS() as Manifest)
  const part = documents.filter((manifest) => manifest?.metadata.name === name)
  return Object.fromEntries(part.map((manifest) => [manifest.kind, manifest]))
}
const render = (...values: string[]) => renderPart('w-wardline', ...values)
const renderGateway = (...values: string[]) => renderPart('w-wardline-gateway', ...values)

function assertRefused(reason: RegExp, ...values: string[]): void {
  const { status, stderr } = run('template', values)
  assert.notEqual(status, 0, `accepts ${values.join(' ')}`)
  assert.match(stderr, reason)
}

function assertHardened({ Deployment }: Record<string, Manifest>): void {
  const pod = Deployment.spec.template.spec
  assert.equal(pod.enableServiceLinks, false)
  assert.equal(pod.automountServiceAccountToken, false)
  assert.equal(pod.securityContext.runAsNonRoot, true)
  assert.equal(pod.securityContext.seccompProfile.type, 'RuntimeDefault')
  for (const { securityContext } of pod.containers) {
    assert.equal(securityContext.allowPrivilegeEscalation, false)
    assert.equal(securityContext.readOnlyRootFilesystem, true)
    assert.deepEqual(securityContext.capabilities, { drop: ['ALL'] })
  }
}

const postgres = ['database.secretName=pg', 'masterSecret.secretName=wardline']
const several = [...postgres, 'backplane.secretName=redis', 'apiKey.secretName=wardline', 'replicas=3']
const fileText =
  'upstreams: { openai: { kind: openai\\, url: "https://api.openai.com/v1"\\, key_file: /run/secrets/gateway/openai } }'
const gateway = [
  ...several,
  'gateway.enabled=true',
  `gateway.file=${fileText}`,
  'gateway.keys.openai.secretName=models',
  'gateway.keys.openai.key=openai-key',
]
const everything = [
  ...several,
  'autoscaling.enabled=true',
  'ingress.enabled=true',
  'ingress.tlsSecretName=tls',
  'alerts.SMTP_URL.secretName=mail',
  'alerts.SMTP_URL.key=url',
]

for (const values of [[], several, everything, gateway])
  assert.equal(run('lint', values).status, 0, run('lint', values).stdout)

const single = render()
assertHardened(single)
assert.equal(single.ServiceAccount.automountServiceAccountToken, false)
assert.deepEqual(renderGateway(), {})
assert.equal(single.Deployment.spec.replicas, 1)
assert.equal(single.Deployment.spec.strategy.type, 'Recreate')
assert.equal(single.PersistentVolumeClaim.metadata.annotations['helm.sh/resource-policy'], 'keep')
assert.equal(single.PodDisruptionBudget, undefined)
assert.equal(single.Deployment.spec.template.spec.containers[0].env, undefined)
assert.equal(single.ConfigMap.data.WARDLINE_STREAM_AUTH, 'session')
assert.equal(
  single.ConfigMap.data.WARDLINE_ALLOWED_HOSTS,
  'w-wardline,w-wardline.default,w-wardline.default.svc,w-wardline.default.svc.cluster.local',
)

const scaled = render(...several)
assertHardened(scaled)
assert.equal(scaled.Deployment.spec.replicas, 3)
assert.equal(scaled.Deployment.spec.strategy.type, 'RollingUpdate')
assert.equal(scaled.PersistentVolumeClaim, undefined)
assert.equal(scaled.PodDisruptionBudget.spec.maxUnavailable, 1)
const { containers, volumes } = scaled.Deployment.spec.template.spec
const files = volumes.find(({ name }: Manifest) => name === 'secrets').projected
const mountPath = containers[0].volumeMounts.find(({ name }: Manifest) => name === 'secrets').mountPath
const mounted = files.sources.map(({ secret }: Manifest) => `${mountPath}/${secret.items[0].path}`)
assert.deepEqual(containers[0].env.map(({ value }: Manifest) => value).sort(), mounted.sort())
assert.equal(containers[0].env.length, 4)
assert.equal(files.defaultMode, 0o440)

const full = render(...everything)
assert.equal(full.Deployment.spec.replicas, undefined)
assert.equal(full.HorizontalPodAutoscaler.spec.scaleTargetRef.name, full.Deployment.metadata.name)
const paths = full.Ingress.spec.rules[0].http.paths.map(({ path }: Manifest) => path)
assert.deepEqual(paths, ['/', '/api', '/docs', '/openapi.json'])
assert.equal(full.Ingress.spec.rules[0].http.paths[0].pathType, 'Exact')
assert.deepEqual(full.NetworkPolicy.spec.policyTypes, ['Ingress', 'Egress'])

const portsOf = ({ NetworkPolicy }: Record<string, Manifest>) =>
  NetworkPolicy.spec.egress.flatMap(({ ports }: Manifest) =>
    ports.map(({ port, protocol = 'TCP' }: Manifest) => `${port} ${protocol}`),
  )
const dns = ['53 UDP', '53 TCP']
// A policy is on unless it is switched off; what a set-up does not use stays closed.
assert.deepEqual(portsOf(single), [...dns, '443 TCP'])
assert.deepEqual(portsOf(scaled), [...dns, '5432 TCP', '6379 TCP', '443 TCP'])
assert.deepEqual(portsOf(full), [...dns, '5432 TCP', '6379 TCP', '465 TCP', '587 TCP', '443 TCP'])
const syslog = ['networkPolicy.alertPorts[0].port=514', 'networkPolicy.alertPorts[0].protocol=UDP']
assert.deepEqual(portsOf(render(...syslog)), [...dns, '514 UDP'])
const sources = (...values: string[]) => render(...values).NetworkPolicy.spec.ingress[0].from
assert.deepEqual(sources(), [{ podSelector: {} }])
assert.deepEqual(sources('ingress.enabled=true'), [{ namespaceSelector: {} }])
assert.equal(sources('service.type=LoadBalancer'), undefined)
assert.deepEqual(sources('networkPolicy.from[0].ipBlock.cidr=10.0.0.0/8'), [{ ipBlock: { cidr: '10.0.0.0/8' } }])
assert.equal(render('networkPolicy.enabled=false').NetworkPolicy, undefined)

assert.equal(single.ServiceMonitor, undefined)
const { ServiceMonitor, Service } = render('serviceMonitor.enabled=true', 'serviceMonitor.labels.release=prom')
assert.equal(ServiceMonitor.metadata.labels.release, 'prom')
assert.deepEqual(ServiceMonitor.spec.endpoints, [
  { port: Service.spec.ports[0].name, path: '/metrics', interval: '30s' },
])
for (const [name, value] of Object.entries(ServiceMonitor.spec.selector.matchLabels))
  assert.equal(Service.metadata.labels[name], value)
assertRefused(
  /cannot send the header X-Monitor-Key/,
  'serviceMonitor.enabled=true',
  'settings.WARDLINE_METRICS_AUTH=key',
)

// With a database and no backplane, not even for the length of an upgrade may two processes run.
assert.equal(render(...postgres).Deployment.spec.strategy.type, 'Recreate')
assertRefused(/cannot share a SQLite file/, 'replicas=2')
assertRefused(/cannot share a SQLite file/, 'autoscaling.enabled=true')
assertRefused(/must hear of each other/, ...postgres, 'replicas=2')
assertRefused(/must hear of each other/, ...postgres, 'autoscaling.enabled=true')
assertRefused(/A backplane connects several processes/, 'backplane.secretName=redis')
assertRefused(/set masterSecret.secretName/, 'database.secretName=pg')
assertRefused(/minReplicas is greater/, ...several, 'autoscaling.enabled=true', 'autoscaling.minReplicas=9')

const separate = renderGateway(...gateway)
assertHardened(separate)
assert.equal(separate.Deployment.spec.replicas, 2)
assert.equal(separate.PodDisruptionBudget.spec.maxUnavailable, 1)
assert.equal(renderGateway(...gateway, 'gateway.replicas=1').PodDisruptionBudget, undefined)
// Neither Service may send its requests to the pods of the other, nor the ServiceMonitor scrape the gateway, which needs a key.
const selected = { 'app.kubernetes.io/name': 'wardline-gateway', 'app.kubernetes.io/instance': 'w' }
assert.deepEqual(separate.Service.spec.selector, selected)
for (const { spec } of [separate.Deployment, separate.PodDisruptionBudget])
  assert.deepEqual(spec.selector.matchLabels, selected)
assert.deepEqual(separate.NetworkPolicy.spec.podSelector.matchLabels, selected)
assert.deepEqual(separate.Deployment.spec.template.metadata.labels, selected)
assert.equal(separate.Service.metadata.labels['app.kubernetes.io/name'], 'wardline-gateway')
assert.equal(scaled.Service.spec.selector['app.kubernetes.io/name'], 'wardline')

const [container] = separate.Deployment.spec.template.spec.containers
const pod = separate.Deployment.spec.template.spec
const environment = Object.fromEntries(container.env.map(({ name, value }: Manifest) => [name, value]))
const pathsIn = (volume: string) => {
  const { mountPath } = container.volumeMounts.find(({ name }: Manifest) => name === volume)
  const { sources } = pod.volumes.find(({ name }: Manifest) => name === volume).projected
  return sources.map(({ secret }: Manifest) => `${mountPath}/${secret.items[0].path}`)
}
const ofSecrets = Object.entries(environment).flatMap(([name, value]) => (name.endsWith('_FILE') ? [value] : []))
assert.deepEqual(ofSecrets.sort(), ['/run/gateway/gateway.yaml', ...pathsIn('secrets')].sort())
assert.deepEqual(pathsIn('keys'), ['/run/secrets/gateway/openai'])
assert.equal(environment.WARDLINE_STREAM_AUTH, 'session')
assert.equal(String(environment.WARDLINE_GATEWAY_PORT), String(container.ports[0].containerPort))
const half = ['settings.ALERT_EMAIL_TO=a@example.com', 'settings.TRUST_NAME=x', 'settings.TELEGRAM_CHAT_ID=x']
assert.deepEqual(renderGateway(...gateway, ...half).Deployment.spec.template.spec.containers[0].env, container.env)
assert.match(separate.ConfigMap.data['gateway.yaml'], /^upstreams: /)
// The service shows the budgets of the same file, and has no key of a provider.
const ofService = render(...gateway).Deployment.spec.template.spec
assert.deepEqual(
  ofService.containers[0].env.find(({ name }: Manifest) => name === 'WARDLINE_GATEWAY_FILE').value,
  environment.WARDLINE_GATEWAY_FILE,
)
assert.doesNotMatch(JSON.stringify(ofService), /openai-key/)

const readiness = (...values: string[]) =>
  renderGateway(...gateway, ...values).Deployment.spec.template.spec.containers[0].readinessProbe.httpGet.path
assert.equal(readiness(), '/readyz')
assert.equal(readiness('gateway.fail=open'), '/healthz')
assert.deepEqual(portsOf(separate), [...dns, '5432 TCP', '6379 TCP', '443 TCP'])
const local = gateway.map((value) => value.replace('https://api.openai.com/v1', 'http://vllm.models:8000/v1'))
assert.deepEqual(portsOf(renderGateway(...local)), [...dns, '5432 TCP', '6379 TCP', '8000 TCP'])
assert.deepEqual(separate.NetworkPolicy.spec.ingress[0].from, [{ podSelector: {} }])
const balanced = renderGateway(...gateway, 'gateway.service.type=LoadBalancer')
assert.equal(balanced.NetworkPolicy.spec.ingress[0].from, undefined)
assertRefused(/names no upstreams/, ...several, 'gateway.enabled=true')
assertRefused(/key_file of openai must be/, ...gateway.filter((value) => !value.startsWith('gateway.keys')))
assertRefused(/shares a PostgreSQL database/, 'gateway.enabled=true')

console.log('The chart renders as it should.')
