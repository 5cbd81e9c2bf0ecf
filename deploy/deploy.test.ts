import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { endpoints } from '@wardline/contract'
import { readConfig, settings, startServer } from '@wardline/server'
import { Ajv } from 'ajv'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { channelVariables } from '../packages/server/src/config/alerts.ts'
import { servedHosts } from '../packages/server/src/http/host-check.ts'
import { createMetrics } from '../packages/server/src/metrics.ts'

const folder = fileURLToPath(new URL('.', import.meta.url))
const text = (name: string): string => readFileSync(join(folder, name), 'utf8')

interface Service {
  image: string
  profiles?: string[]
  ports?: string[]
  environment?: Record<string, string>
  secrets?: string[]
  volumes?: string[]
  networks?: string[] | Record<string, { ipv4_address: string }>
  user?: string
  read_only?: boolean
  cap_drop?: string[]
  privileged?: boolean
}

interface Compose {
  services: Record<string, Service>
  networks: Record<string, { internal?: boolean }>
  secrets: Record<string, { file: string }>
}

const compose: Compose = parse(text('compose.yaml'), { merge: true })
const services = Object.entries(compose.services)
const members = services.filter(([name]) => /^wardline-\d$/.test(name))
const networksOf = ({ networks = [] }: Service) => (Array.isArray(networks) ? networks : Object.keys(networks))
const endpointPaths = Object.values(endpoints).map(({ path }) => path)

/** As Compose puts values in: those of variables that are not set. */
const interpolate = (value: string) => value.replaceAll(/\$\{\w+:-([^}]*)\}/g, '$1')

/** What `make-secrets.sh` makes, in a copy of this folder. */
let made: string
beforeAll(() => {
  made = mkdtempSync(join(tmpdir(), 'wardline-deploy-'))
  for (const name of readdirSync(folder))
    if (name !== 'secrets') cpSync(join(folder, name), join(made, name), { recursive: true })
  execFileSync('sh', [join(made, 'make-secrets.sh')])
})
afterAll(() => rmSync(made, { recursive: true, force: true }))

/** The environment that the service gets, with the secrets where the script put them. */
function environmentOf({ environment = {} }: Service): Record<string, string> {
  const inContainer = Object.entries(environment).map(([name, value]) => [
    name,
    interpolate(value).replace('/run/secrets', join(made, 'secrets')),
  ])
  return { HOST: '0.0.0.0', WARDLINE_DATA_DIR: '/data', ...Object.fromEntries(inContainer) }
}

describe('the compose file', () => {
  test('gives every process an environment that the service accepts', () => {
    expect(members).toHaveLength(3)
    const [, ...others] = members.map(([, service]) => readConfig(environmentOf(service)))
    const first = readConfig(environmentOf(members[0]![1]))
    expect(first.databaseUrl).toMatch(/^postgres:\/\/wardline:[\w-]{43}@postgres:5432\/wardline$/)
    expect(first.secret).toMatch(/^[\w-]{43}$/)
    for (const other of others) expect(other).toEqual(first)
    expect(readConfig(environmentOf(compose.services.wardline!)).databaseUrl).toBeUndefined()
    const { databaseUrl, backplaneUrl, secret, gatewayPort } = readConfig(environmentOf(compose.services.gateway!))
    expect({ databaseUrl, backplaneUrl, secret }).toEqual({
      databaseUrl: first.databaseUrl,
      backplaneUrl: first.backplaneUrl,
      secret: first.secret,
    })
    expect(compose.services.gateway!.ports).toEqual([`127.0.0.1:${gatewayPort}:${gatewayPort}`])
  })

  // A health check that gets 421 takes the process out of service.
  test('lets every process answer to the names by which browsers, Caddy and other containers ask it', () => {
    for (const [name, service] of members) {
      const { host, allowedHosts, publicUrl } = readConfig(environmentOf(service))
      const isServed = servedHosts({ host, allowedHosts, publicUrl }, 'a1b2c3d4e5f6')
      const asked = [...members.map(([member]) => member), '127.0.0.1', 'localhost']
      expect(
        asked.filter((asking) => !isServed(asking)),
        name,
      ).toEqual([])
      expect(isServed('evil.example'), name).toBe(false)
    }
    const single = readConfig(environmentOf(compose.services.wardline!))
    expect(servedHosts(single, 'a1b2c3d4e5f6')('wardline')).toBe(true)
  })

  // On one machine with a browser, whatever page is open there could read the events.
  test('does not leave the stream of the single process open', () => {
    expect(readConfig(environmentOf(compose.services.wardline!)).streamAuth).toBe('session')
  })

  // A client that can choose its recorded address gets past limits and allow lists.
  test('trusts only the proxy about client addresses', () => {
    const { networks } = compose.services.edge!
    const address = (networks as Record<string, { ipv4_address: string }>).edge!.ipv4_address
    for (const [, service] of members) expect(readConfig(environmentOf(service)).trustedProxies).toEqual([address])
  })

  test('publishes ports on this machine only by default, and none twice', () => {
    const published = services.flatMap(([, { ports = [] }]) => ports.map(interpolate))
    expect(published.every((port) => port.startsWith('127.0.0.1:'))).toBe(true)
    const bound = published.map((port) => port.split(':').slice(0, 2).join(':'))
    expect(new Set(bound).size).toBe(bound.length)
    expect(bound).toEqual(['127.0.0.1:4747', '127.0.0.1:4748', '127.0.0.1:80', '127.0.0.1:443'])
  })

  // PostgreSQL and Redis hold and carry everything.
  test('keeps PostgreSQL and Redis in a network without a way out', () => {
    expect(compose.networks.inner).toEqual({ internal: true })
    for (const name of ['postgres', 'redis']) expect(networksOf(compose.services[name]!), name).toEqual(['inner'])
    expect(networksOf(compose.services.edge!)).toEqual(['edge'])
  })

  test('starts only the single process unless the profile is named', () => {
    const always = services.filter(([, { profiles }]) => profiles === undefined).map(([name]) => name)
    expect(always).toEqual(['wardline'])
  })

  test('takes from every container what it does not need', () => {
    for (const [name, service] of services) {
      expect(service.cap_drop, name).toEqual(['ALL'])
      expect(service.privileged, name).toBeUndefined()
      expect(service.read_only === true || name === 'postgres', name).toBe(true)
    }
  })

  // A default password is public.
  test('contains no secret, and none that the script does not generate', () => {
    for (const [name, { environment = {} }] of services) {
      // Values passed through from the caller's environment are empty here.
      const inClear = Object.entries(environment).filter(([, value]) => interpolate(value) !== '')
      const secret = inClear
        .map(([key]) => key)
        .filter((key) => /(PASSWORD|SECRET|KEY|_URL)$/.test(key) && key !== 'WARDLINE_PUBLIC_URL')
      expect(secret, name).toEqual([])
    }
    const used = new Set(services.flatMap(([, { secrets = [] }]) => secrets))
    expect([...used].sort()).toEqual(Object.keys(compose.secrets).sort())
    const files = Object.values(compose.secrets).map(({ file }) => basename(file))
    // That of the agents who listen to Redis is for no container here.
    expect([...files, 'redis-agent-password'].sort()).toEqual(readdirSync(join(made, 'secrets')).sort())
    const values = files.map((file) => readFileSync(join(made, 'secrets', file), 'utf8'))
    expect(new Set(values).size).toBe(values.length)
    expect(values.every((value) => /[\w-]{43}/.test(value))).toBe(true)
  })

  test('gives the users of Redis the passwords that were made', () => {
    const users = readFileSync(join(made, 'secrets', 'redis-users'), 'utf8')
    const sha256 = (value: string) => createHash('sha256').update(value).digest('hex')
    const service = new URL(readFileSync(join(made, 'secrets', 'backplane-url'), 'utf8'))
    const agents = readFileSync(join(made, 'secrets', 'redis-agent-password'), 'utf8')
    expect(users).toContain(`user ${service.username} on #${sha256(service.password)} `)
    expect(users).toContain(`user wardline-agent on #${sha256(agents)} `)
    expect(users).toMatch(/^user default off /m)
    expect(users).not.toMatch(/PASSWORD|^#/m)
  })

  test('makes secrets once: a second run would lock all users out of the database', () => {
    const before = readFileSync(join(made, 'secrets', 'database-url'), 'utf8')
    expect(spawnSync('sh', [join(made, 'make-secrets.sh')]).status).toBe(1)
    expect(readFileSync(join(made, 'secrets', 'database-url'), 'utf8')).toBe(before)
  })
})

describe('the proxy', () => {
  const caddyfile = text('Caddyfile')

  test('sends requests to every process, and asks for health where the service answers', () => {
    const upstreams = [...caddyfile.matchAll(/reverse_proxy (.*) \{/g)].map((match) => match[1])
    expect(upstreams).toHaveLength(2)
    const expected = members.map(([name]) => `${name}:${settings.port.unset}`).join(' ')
    for (const upstream of upstreams) expect(upstream).toBe(expected)
    const asked = [...caddyfile.matchAll(/health_uri (\S+)/g)].map((match) => match[1]!)
    expect(asked).toEqual(['/healthz', '/readyz'])
    for (const path of asked) expect(endpointPaths).toContain(path)
  })

  test('knows the paths of the service by their names', () => {
    expect(endpointPaths).toEqual(expect.arrayContaining(['/api/stream', '/metrics']))
    const polls = /@polls path (.*)/.exec(caddyfile)![1]!.split(' ')
    expect(endpointPaths).toEqual(expect.arrayContaining(polls.map((path) => path.replace('*', ':instanceId'))))
  })

  // The stream needs no key: without a list of addresses, it must be closed.
  test('closes the stream by default', () => {
    expect(caddyfile).toMatch(
      /path \/api\/stream \/api\/stream\/\*\n\t\tnot remote_ip \{\$STREAM_ALLOW:127\.0\.0\.1\/32\}/,
    )
    expect(interpolate(compose.services.edge!.environment!.STREAM_ALLOW!)).toBe('127.0.0.1/32')
    expect(caddyfile.indexOf('handle @stranger')).toBeLessThan(caddyfile.indexOf('reverse_proxy'))
  })

  test('does not hold back the frames of a stream', () => {
    expect(caddyfile).toContain('flush_interval -1')
    expect(caddyfile.match(/import proxy/g)).toHaveLength(2)
  })
})

describe('the image', () => {
  const dockerfile = text('Dockerfile')
  const lastStage = dockerfile.slice(dockerfile.lastIndexOf('\nFROM '))

  test('runs as a user that Kubernetes can see is not root', () => {
    expect(/^USER (.*)$/m.exec(lastStage)![1]).toBe('1000:1000')
  })

  // The owner of a tag decides what every later build consists of.
  test('is built from a base that is named by its digest, with a Node that the service runs on', () => {
    expect(dockerfile.match(/^FROM /gm)).toHaveLength(2)
    expect(dockerfile.match(/^FROM \$\{NODE_IMAGE\}( AS build)?$/gm)).toHaveLength(2)
    const [, version] = /^ARG NODE_IMAGE=node:([\d.]+)-bookworm-slim@sha256:[0-9a-f]{64}$/m.exec(dockerfile)!
    const { engines } = JSON.parse(readFileSync(join(folder, '..', 'packages/server/package.json'), 'utf8'))
    const oldest = engines.node.replace('>=', '')
    expect(version!.localeCompare(oldest, 'en', { numeric: true })).toBeGreaterThanOrEqual(0)
  })

  test('runs as the README says: its tag, its port, its volume and settings that the service accepts', () => {
    const readme = readFileSync(join(folder, '..', 'README.md'), 'utf8')
    const [, file, tag] = /^docker build -f (\S+) -t (\S+) \.$/m.exec(readme)!
    expect(file).toBe('deploy/Dockerfile')
    const words = /^docker run (.*)$/m.exec(readme)![1]!.split(' ')
    expect(words.at(-1)).toBe(tag)
    const optionsOf = (name: string) => words.flatMap((word, index) => (word === name ? [words[index + 1]!] : []))
    const [, port] = /^EXPOSE (\d+)$/m.exec(lastStage)!
    const [, volume] = /^VOLUME (\S+)$/m.exec(lastStage)!
    // An address is given: Docker would publish the port on every interface.
    expect(optionsOf('-p')).toEqual([`127.0.0.1:${port}:${port}`])
    expect(optionsOf('-v')).toEqual([`wardline-data:${volume}`])
    const given = Object.fromEntries(optionsOf('-e').map((setting) => setting.split('=')))
    const {
      port: listens,
      host,
      dataDir,
      streamAuth,
    } = readConfig({ HOST: '0.0.0.0', WARDLINE_DATA_DIR: '/data', ...given })
    expect({ listens, host, dataDir, streamAuth }).toEqual({
      listens: Number(port),
      host: '0.0.0.0',
      dataDir: volume,
      streamAuth: 'session',
    })
    for (const setting of ['HOST=0.0.0.0', 'WARDLINE_DATA_DIR=/data']) expect(lastStage).toContain(setting)
    // What `docker exec` calls, and what the entry point starts.
    expect(lastStage).toContain('ln -s /app/packages/cli/dist/main.js /usr/local/bin/wardline')
    expect(lastStage).toContain('ENTRYPOINT ["wardline"]')
    const name = optionsOf('--name')[0]
    expect(readme).toContain(`docker exec ${name} cat ${volume}/admin-key`)
  })

  test('asks the running service for its health', async () => {
    const env = { PORT: '0', WARDLINE_DATA_DIR: join(made, 'data'), WARDLINE_LOG_LEVEL: 'silent' }
    const service = await startServer(readConfig(env))
    const [, ...command]: string[] = JSON.parse(/HEALTHCHECK[^[]*(\[.*\])/.exec(lastStage)![1]!)
    const check = async () => {
      const child = spawn(process.execPath, command, { env: { PORT: new URL(service.url).port } })
      return (await once(child, 'exit'))[0]
    }
    expect(await check()).toBe(0)
    await service.close()
    expect(await check()).toBe(1)
  })

  // Files in the build context may end up in a layer that is public.
  test('is built from what is listed, never from the data folder or a secret', () => {
    const lines = readFileSync(join(folder, '..', '.dockerignore'), 'utf8')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
    expect(lines[0]).toBe('*')
    const sent = lines.filter((line) => line.startsWith('!')).map((line) => line.slice(1))
    expect(sent.sort()).toEqual([
      '.npmrc',
      'clients/python/wardline.py',
      'package-lock.json',
      'package.json',
      'packages',
      'tools',
      'tsconfig.json',
    ])
    expect(lines).toEqual(expect.arrayContaining(['**/data', '**/.env*', '**/node_modules', '**/dist']))
  })
})

describe('what watches the service', () => {
  /** Every metric that a query names, without the suffixes of histograms. */
  const named = (query: string) => [...query.matchAll(/\bwardline_\w+/g)].map(([name]) => name)
  const board = JSON.parse(text('grafana/wardline.json'))
  // biome-ignore lint/suspicious/noExplicitAny: panels are of Grafana's form
  const queries: string[] = board.panels.flatMap((panel: any) => panel.targets ?? []).map(({ expr }: any) => expr)
  const rules = parse(text('prometheus-rules.yaml')).groups.flatMap(
    (group: { rules: { expr: string }[] }) => group.rules,
  )

  test('asks for metrics and labels that a running service exports, and for no others', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'wardline-metrics-'))
    const server = await startServer(
      readConfig({ PORT: '0', WARDLINE_DATA_DIR: dataDir, WARDLINE_LOG_LEVEL: 'silent' }),
    )
    const exported = await (await fetch(`${server.url}/metrics`)).text()
    await server.close()
    rmSync(dataDir, { recursive: true, force: true })
    const types = new Map([...exported.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, type]) => [name!, type!]))
    // Removed where there is no backplane, and exported with one.
    types.set('wardline_backplane_up', 'gauge')
    const asked = [...queries, ...rules.map(({ expr }: { expr: string }) => expr)].flatMap(named)
    expect(new Set(asked).size).toBeGreaterThan(20)
    const known = (name: string) => {
      const base = name.replace(/_(bucket|sum|count)$/, '')
      return types.has(name) || (base !== name && types.get(base) === 'histogram')
    }
    expect(asked.filter((name) => !known(name))).toEqual([])
    // None that the service exports is missing on the board.
    const shown = new Set(queries.flatMap(named).map((name) => name.replace(/_(bucket|sum|count)$/, '')))
    expect([...types.keys()].filter((name) => name.startsWith('wardline_') && !shown.has(name))).toEqual([])
  })

  test('groups by labels that the metrics have', () => {
    const { registry } = createMetrics()
    const labels = (name: string): string[] =>
      (registry.getSingleMetric(name.replace(/_(bucket|sum|count)$/, '')) as unknown as { labelNames: string[] })
        ?.labelNames ?? []
    for (const query of queries) {
      const allowed = ['le', 'job', 'instance', ...named(query).flatMap(labels)]
      const grouped = [...query.matchAll(/by \(([^)]+)\)/g)].flatMap(([, list]) => list!.split(', '))
      const matched = [...query.matchAll(/(\w+)=~?"/g)].map(([, name]) => name!)
      expect(
        [...grouped, ...matched].filter((label) => !allowed.includes(label)),
        query,
      ).toEqual([])
    }
  })

  test('scrapes the path and port of the service under the job that rules and board expect', () => {
    const { scrape_configs: scrapes, rule_files: files } = parse(text('prometheus.yml'))
    expect(scrapes).toEqual([
      {
        job_name: 'wardline',
        metrics_path: endpoints.getMetrics.path,
        static_configs: [{ targets: [`${settings.host.unset}:${settings.port.unset}`] }],
      },
    ])
    expect(files).toEqual(['prometheus-rules.yaml'])
  })
})

describe('the Helm chart', () => {
  const values = parse(text('helm/wardline/values.yaml'))
  const accepts = new Ajv({ strict: false }).compile(JSON.parse(text('helm/wardline/values.schema.json')))
  const template = (name: string) => text(`helm/wardline/templates/${name}`)

  test('accepts its own values', () => {
    accepts(values)
    expect(accepts.errors).toBeNull()
  })

  test.each([
    ['a misspelt value', { replica: 2 }],
    [
      'a secret among the settings, which everybody who may list ConfigMaps could read',
      { settings: { WARDLINE_SECRET: 'x' } },
    ],
    ['an address with a password among the settings', { settings: { DATABASE_URL: 'postgres://u:p@h/d' } }],
    ['a file of a secret that is not mounted', { settings: { WARDLINE_API_KEY_FILE: '/x' } }],
    ['a setting of alerts without its Secret', { alerts: { SLACK_WEBHOOK_URL: 'https://hooks.example.com' } }],
    ['a setting of alerts that there is not', { alerts: { SLACK_URL: { secretName: 'x', key: 'y' } } }],
    ['another data folder than the volume', { settings: { WARDLINE_DATA_DIR: '/tmp' } }],
    ['a number that Helm would write as 1.1155111e+07', { settings: { TRUST_CHAIN_ID: 11155111 } }],
    ['a setting of the gateway, which has values', { settings: { WARDLINE_GATEWAY_PORT: '4748' } }],
    ['a key of a provider in clear text', { gateway: { ...values.gateway, keys: { openai: 'sk-1' } } }],
    ['metrics for the outside', { ingress: { ...values.ingress, paths: ['/metrics'] } }],
  ])('refuses %s', (_what, given) => {
    expect(accepts({ ...values, ...given })).toBe(false)
  })

  test('names settings as the service does', () => {
    const names = Object.values(settings).map(({ env }) => env)
    const inValues = [...text('helm/wardline/values.yaml').matchAll(/^ {2}(?:# )?([A-Z_]+):/gm)].map(
      (match) => match[1],
    )
    expect(inValues).toEqual(['WARDLINE_STREAM_AUTH', 'WARDLINE_TRUSTED_PROXIES', 'WARDLINE_ALLOWED_HOSTS'])
    const inTemplates = [...template('_helpers.tpl').matchAll(/"([A-Z_]{4,})" \.Values/g)].map((match) => match[1]!)
    expect(inTemplates).toHaveLength(7)
    expect(names).toEqual(expect.arrayContaining([...inValues, ...inTemplates]))
    const secrets = Object.values(settings).filter((entry) => 'secret' in entry && entry.secret)
    const ofAlerts: string[] = JSON.parse(text('helm/wardline/values.schema.json')).properties.alerts.propertyNames.enum
    expect([...inTemplates, ...ofAlerts].sort()).toEqual(secrets.map(({ env }) => env).sort())
  })

  test('closes unused ports to the network by default', () => {
    expect(values.networkPolicy).toEqual({
      enabled: true,
      from: [],
      alertPorts: [{ port: 443 }],
      databasePort: 5432,
      backplanePort: 6379,
      egress: [],
    })
    const policy = template('networkpolicy.yaml')
    for (const [condition, port] of [
      ['.Values.database.secretName', '{{ .Values.networkPolicy.databasePort }}'],
      ['.Values.backplane.secretName', '{{ .Values.networkPolicy.backplanePort }}'],
      ['hasKey .Values.alerts "SMTP_URL"', 465],
    ]) {
      expect(policy).toContain(`{{- if ${condition} }}\n        - port: ${port}\n`)
    }
    expect(accepts({ ...values, networkPolicy: { ...values.networkPolicy, alertPorts: [{ port: 0 }] } })).toBe(false)
    expect(accepts({ ...values, networkPolicy: { ...values.networkPolicy, alertPorts: [443] } })).toBe(false)
  })

  test('keeps names of Kubernetes out of the environment, which the service would refuse', () => {
    expect(() => readConfig({ WARDLINE_SERVICE_HOST: '10.0.0.1' })).toThrow('WARDLINE_SERVICE_HOST is not a setting')
    expect(template('_helpers.tpl')).toContain('\nenableServiceLinks: false\n')
    for (const name of ['deployment.yaml', 'gateway.yaml'])
      expect(template(name)).toContain('{{- include "wardline.pod" . ')
  })

  test('gives the gateway settings that a process without the secrets of alerts and of the chain accepts', () => {
    const gateway = template('gateway.yaml')
    const given = [...gateway.matchAll(/- name: (\w+)\n\s+value: '?([^'\n]+)/g)].map(([, name, value]) => [name, value])
    const environment = {
      ...Object.fromEntries(given.filter(([, value]) => !value!.includes('{{'))),
      DATABASE_URL: 'postgres://u:p@db/wardline',
      WARDLINE_GATEWAY_FAIL: values.gateway.fail,
    }
    const { host, gatewayPort, gatewayFail } = readConfig(environment)
    expect({ host, gatewayPort, gatewayFail }).toEqual({ host: '0.0.0.0', gatewayPort: 4748, gatewayFail: 'closed' })
    expect(gateway).toContain(`containerPort: ${gatewayPort}\n`)

    const leftOut = new RegExp(/regexMatch "(.*)" \$setting/.exec(gateway)![1]!)
    expect(() => readConfig({ ...environment, TELEGRAM_CHAT_ID: '1' })).toThrow('TELEGRAM_BOT_TOKEN')
    const ofChannels = channelVariables.filter((entry) => !('secret' in entry && entry.secret)).map(({ env }) => env)
    const ofChain = Object.values(settings)
      .map(({ env }) => env)
      .filter((env) => env.startsWith('TRUST_'))
    expect(ofChannels.length).toBeGreaterThan(1)
    expect([...ofChannels, ...ofChain].filter((env) => !leftOut.test(env))).toEqual([])
  })

  test('asks for health where the service answers', () => {
    const asked = (name: string) =>
      [...template(name).matchAll(/(\w+)Probe:\n\s+httpGet:\n\s+path: (.+)/g)].map(([, probe, path]) => [probe, path])
    expect(asked('deployment.yaml')).toEqual([
      ['startup', '/healthz'],
      ['liveness', '/healthz'],
      ['readiness', '/readyz'],
    ])
    // With `open` the gateway must stay reachable while the database is away.
    expect(asked('gateway.yaml')).toEqual([
      ['startup', '/healthz'],
      ['liveness', '/healthz'],
      ['readiness', '{{ eq .Values.gateway.fail "open" | ternary "/healthz" "/readyz" }}'],
    ])
  })
})

describe('the Prometheus rules', () => {
  test('ask only for metrics that the service has', async () => {
    const { groups } = parse(text('prometheus-rules.yaml')) as {
      groups: { rules: { alert: string; expr: string }[] }[]
    }
    const known = (await createMetrics().registry.getMetricsAsJSON()).map(({ name }) => name)
    const asked = groups.flatMap(({ rules }) => rules).flatMap(({ expr }) => expr.match(/wardline_\w+/g) ?? [])
    expect(asked.length).toBeGreaterThan(5)
    expect(known).toEqual(expect.arrayContaining(asked.map((name) => name.replace(/_bucket$/, ''))))
  })
})
