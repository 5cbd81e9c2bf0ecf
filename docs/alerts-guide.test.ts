import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  alertTypes,
  channelKinds,
  channelTypes,
  isServiceType,
  serviceEventTypes,
  serviceSource,
  titleOf,
} from '@wardline/contract'
import { settings } from '@wardline/server'
import { Webhook } from 'standardwebhooks'
import { Check } from 'typebox/value'
import { expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { parseSettings } from '../packages/cli/src/alerts/channel-settings.ts'

const guide = readFileSync(new URL('guide/alerts.md', import.meta.url), 'utf8')
const blocks = (language: string): string[] =>
  [...guide.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map((match) => match[1]!)

test('the guide shows settings that the service takes, for every type of channel', () => {
  const rows = [...guide.matchAll(/^\| `(\w+)` \| .*?`(\{.*\})`/gm)].map(([, type, text]) => [type, text!] as const)
  expect(rows.map(([type]) => type).sort()).toEqual([...channelTypes].sort())
  for (const [type, text] of rows) {
    const schema = channelKinds[type as keyof typeof channelKinds].settings
    expect(Check(schema, parseSettings(text)), `${type}: ${text}`).toBe(true)
  }
})

test('the guide lists every type that the service itself reports, with its title', () => {
  const rows = [...guide.matchAll(/^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \| (.*?) \| .* \| .* \|$/gm)]
  const listed = rows.flatMap(([, names, titles]) => {
    const types = names!.match(/[a-z_]+/g)!
    const agent = { by_service: true, source: serviceSource, instance_id: 'bot-1' }
    expect(titles).toBe(types.map((event_type) => titleOf({ ...agent, event_type })).join('; '))
    return types
  })
  const reported = [...Object.values(alertTypes), ...serviceEventTypes]
  expect(reported.filter((type) => !isServiceType(type))).toEqual([])
  // Named in the row of the event that it counts or ends.
  const named = (type: string) =>
    listed.includes(type) || guide.includes(`\`${type}\`: so did`) || guide.includes(`\`${type}\` counts`)
  expect(reported.filter((type) => !named(type))).toEqual([])
})

test('the guide names settings of the environment that there are', () => {
  const known: string[] = Object.values(settings).map(({ env }) => env)
  const named = [...guide.matchAll(/\b(?:ALERT|SLACK|DISCORD|TEAMS|TELEGRAM|PAGERDUTY|SMTP|NTFY|WARDLINE)_[A-Z_]+\b/g)]
  const files = named.map(([name]) => name.replace(/_FILE$/, ''))
  expect(files.filter((name) => !known.includes(name))).toEqual([])
})

test('the guide shows rules for Prometheus as they are shipped', () => {
  interface Rule {
    alert: string
    expr: string
    for?: string
  }
  const shown: Rule[] = blocks('yaml').flatMap((block) => parse(block))
  const file = readFileSync(new URL('../deploy/prometheus-rules.yaml', import.meta.url), 'utf8')
  const shipped: Rule[] = parse(file).groups.flatMap(({ rules }: { rules: Rule[] }) => rules)
  expect(shown).toHaveLength(2)
  for (const rule of shown) expect(shipped).toContainEqual(expect.objectContaining(rule))
})

// Readers copy it and rely on it.
test('the guide verifies signatures by code that refuses what is forged, changed or old', async () => {
  const code = blocks('ts').find((block) => block.includes('createHmac'))!
  const folder = mkdtempSync(join(tmpdir(), 'wardline-guide-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'verify.ts')
  writeFileSync(file, code)
  const { isGenuine } = (await import(pathToFileURL(file).href)) as {
    isGenuine(body: string, headers: Record<string, string>, secret: string): boolean
  }
  const [secret, other] = [`whsec_${'c2VjcmV0'.repeat(4)}`, `whsec_${'b3RoZXIx'.repeat(4)}`]
  const [id, body] = ['01a1fea9-26b4-79dd-9384-cdeaa050f1ec', '{"type":"alert.policy_violation"}']
  const signed = (ageSeconds: number, ...secrets: string[]) => {
    const at = new Date(Date.now() - ageSeconds * 1_000)
    const signatures = secrets.map((each) => new Webhook(each).sign(id, at, body)).join(' ')
    const time = String(Math.floor(at.getTime() / 1_000))
    return { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signatures }
  }
  expect(isGenuine(body, signed(0, secret), secret)).toBe(true)
  expect(isGenuine(body, signed(0, other, secret), secret)).toBe(true)
  const refused = [
    isGenuine(body, signed(0, other), secret),
    isGenuine(`${body} `, signed(0, secret), secret),
    isGenuine(body, { ...signed(0, secret), 'webhook-id': 'another' }, secret),
    isGenuine(body, signed(400, secret), secret),
    isGenuine(body, signed(-400, secret), secret),
    isGenuine(body, { ...signed(0, secret), 'webhook-timestamp': '' }, secret),
    isGenuine(body, {}, secret),
  ]
  expect(refused).toEqual(Array(7).fill(false))
})
