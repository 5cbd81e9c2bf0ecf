import { Compile } from 'typebox/schema'
import { expect, test } from 'vitest'
import { effort } from '../../../test-servers/effort.ts'
import { verifyAudit } from './features/audit/audit.ts'
import { listJobs } from './jobs.ts'
import { AnswerPool } from './testing/answer-pool.ts'
import { type Answer, type Asked, type Operation, requestDraws, routesOf } from './testing/request-draws.ts'
import type { Schema } from './testing/schema-draws.ts'
import { adminKey, openTestService, strict } from './testing/service.ts'

const engine = process.env.TEST_ENGINE ?? 'sqlite'
const cases = { sqlite: effort(8_000, 40_000), postgres: effort(1_500, 20_000), pglite: effort(200, 2_000) }[engine]!
const runMs = effort(600_000, 3_600_000)
const shownFaults = 5
const casesBetweenJobs = 200
/** They send to addresses outside. */
const leftOutJobs = ['alerts', 'telegram-presses', 'enforcement']

const compiled = new WeakMap<Schema, ReturnType<typeof Compile>>()

/** Successes have no field that is not described; errors may have more. */
function bodyFault(schema: Schema, isStrict: boolean, body: unknown): string | undefined {
  const check = compiled.get(schema) ?? Compile((isStrict ? strict(schema) : schema) as never)
  compiled.set(schema, check)
  if (check.Check(body)) return undefined
  return `the body is not as described: ${JSON.stringify(check.Errors(body)[1].slice(0, 2))}`
}

/** What an answer has other than the description promises. */
function faultsOf({ route, scope, broken }: Asked, { status, text, type, code }: Answer): string[] {
  const described = route.responses[status]
  if (!described) return [`status ${status} is not described`]
  const faults: (string | undefined | false)[] = []
  // Drills wait for each other.
  const isOff = ['disabled', 'unavailable'].includes(code) || (status === 503 && route.operationId === 'startDrill')
  faults.push(status >= 500 && !isOff && `status ${status}`)

  const content = Object.entries(described.content).find(([name]) => type.startsWith(name.split(';')[0]!))
  if (!content) return [`content type ${type} is not described`]
  const isJson = type.startsWith('application/json')
  if (isJson && content[1].schema) faults.push(bodyFault(content[1].schema, status < 300, JSON.parse(text)))

  const isAdmitted = route.scopes === undefined || (scope !== undefined && route.scopes.includes(scope))
  if (!isAdmitted) {
    // Refused before its key is read.
    const isTooLong = status === 431
    faults.push(
      !isTooLong &&
        status !== (scope === undefined ? 401 : 403) &&
        `answers ${scope ?? 'callers without a key'} ${status}`,
    )
    return faults.filter((fault) => typeof fault === 'string')
  }
  // A batch says of each event whether it is stored.
  const isRefused = status < 300 && isJson && JSON.parse(text).ok === false
  faults.push(broken !== undefined && status < 300 && !isRefused && `accepts what breaks the rule ${broken}`)
  if (status === 400 && isJson) {
    const { error, message: sentence = error } = JSON.parse(text)
    faults.push(!/^[^\n]+[.)]$/.test(sentence) && 'the refusal is no sentence')
    const namesField = sentence.startsWith('The body') || [...route.words].some((word) => sentence.includes(word))
    faults.push(broken !== undefined && !namesField && 'the refusal names no field')
  }
  return faults.filter((fault) => typeof fault === 'string')
}

async function send(base: string, { route, url, body, raw }: Asked, key: string | undefined): Promise<Answer> {
  const headers: Record<string, string> = {}
  if (key !== undefined) headers['x-monitor-key'] = key
  if (raw !== undefined) headers['content-type'] = raw.type
  const response = await fetch(base + url, {
    method: route.method,
    headers,
    ...(raw === undefined ? {} : { body: raw.text ?? JSON.stringify(body) }),
    redirect: 'manual',
  })
  const type = response.headers.get('content-type') ?? ''
  // A stream does not end: its first message is enough.
  const reader = type.startsWith('text/event-stream') ? response.body!.getReader() : undefined
  const text = reader ? new TextDecoder().decode((await reader.read()).value) : await response.text()
  await reader?.cancel()
  return { status: response.status, text, type, code: response.headers.get('x-error-code') ?? '' }
}

interface Done {
  asked: Asked
  answer: Answer
}

/** A request and those before it of which it uses values, each on a line. */
function shownSequence({ number }: Asked, done: readonly Done[]): string {
  const needed = new Set<number>()
  const add = (one: number) => {
    if (needed.has(one) || !done[one]) return
    needed.add(one)
    for (const earlier of done[one].asked.from) add(earlier)
  }
  add(number)
  const line = (one: number) => {
    const { asked, answer } = done[one]!
    const body = asked.body === undefined ? '' : ` ${JSON.stringify(asked.body).slice(0, 500)}`
    const { scope = 'no key', route, url } = asked
    return `${one}. ${scope}: ${route.method} ${url}${body} → ${answer.status} ${answer.text.slice(0, 200)}`
  }
  return [...needed]
    .sort((a, b) => a - b)
    .map(line)
    .slice(-10)
    .join('\n')
}

/** A sentence without the values in it, so that equal rules count together. */
const ruleOf = (sentence: string) =>
  sentence
    .replace(/(id|tag|channel|successor) \S+/, '$1 …')
    .replace(/; (no instance|tags in use).*/, '')
    .replaceAll(/\d+/g, 'N')

test(
  'sequences drawn from the OpenAPI description are answered as it says',
  async () => {
    const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
    await using service = await openTestService({ env: { WARDLINE_ALERT_ALLOW_CIDRS: '192.0.2.0/24' } })
    const base = await service.app.listen({ host: '127.0.0.1', port: 0 })
    const keys = new Map<string | undefined, string | undefined>([
      ['admin', adminKey],
      [undefined, undefined],
    ])
    const ids: string[] = []
    for (const scope of ['operator', 'viewer', 'agent'] as const) {
      const { id, key } = await service.createKey(scope, scope === 'agent' ? ['a*', 'no-such-agent'] : undefined)
      keys.set(scope, key)
      ids.push(id)
    }
    const document = await (await fetch(`${base}/openapi.json`)).json()
    const routes = routesOf(document as { paths: Record<string, Record<string, Operation>> })

    const pool = new AnswerPool(ids)
    const draws = requestDraws(seed, routes, { pool, scopes: [...keys.keys()], now: () => service.clock.now() })
    const secrets = new Set([...keys.values()].filter((key) => key !== undefined))
    const done: Done[] = []
    const tally: Record<number, number> = {}
    const admitted = new Set<string>()
    const refused = new Map<string, number>()
    const faults = new Map<string, string>()
    const jobs = listJobs(service.deps, service.services).filter(({ name }) => !leftOutJobs.includes(name))
    let repaired: Asked | undefined
    for (let number = 0; number < cases; number++) {
      if (number % casesBetweenJobs === 0) for (const job of jobs) await job.run(new AbortController().signal)
      const asked = repaired ?? draws.next(number)
      repaired = undefined
      const { route, scope, broken } = asked
      const answer = await send(base, asked, keys.get(scope))
      done.push({ asked, answer })
      tally[answer.status] = (tally[answer.status] ?? 0) + 1
      for (const fault of faultsOf(asked, answer)) {
        const title = `${route.operationId}: ${fault}`
        if (!faults.has(title)) faults.set(title, shownSequence(asked, done))
      }
      if (answer.status < 300) admitted.add(route.operationId)
      const body = answer.type.startsWith('application/json') ? JSON.parse(answer.text) : {}
      // A refusal can say what the request has to confirm.
      if (answer.status < 300 || answer.status === 409) pool.harvest(body, route.things, number)
      if (answer.status < 300) {
        pool.harvest(asked.body, route.things, number)
        for (const name of ['key', 'secret', 'token']) if (body[name]?.length > 16) secrets.add(body[name])
      }
      if (answer.code === 'invalid' && scope === 'admin' && broken === undefined) {
        const sentence = body.error ?? body.message
        const rule = `${route.operationId}: ${ruleOf(sentence)}`
        if (draws.between(0, 3) > 0) repaired = draws.repaired(asked, sentence, number + 1)
        refused.set(rule, (refused.get(rule) ?? 0) + 1)
      }
      service.clock.advance(draws.between(0, 2_000))
    }

    const never = routes.filter(({ operationId }) => !admitted.has(operationId)).map(({ operationId }) => operationId)
    const rules = [...refused].sort().map(([rule, count]) => `  ${count} × ${rule}`)
    console.log(
      `seed ${seed}: ${cases} cases on ${engine}: ${JSON.stringify(tally)}; ${admitted.size} of ${routes.length} operations succeeded, not ${never.join(', ')}\nvalid by the description, refused by the service:\n${rules.join('\n')}`,
    )
    if (faults.size > 0) {
      const shown = [...faults].slice(0, shownFaults).map(([title, sequence]) => `${title}\n${sequence}`)
      expect.fail(`seed ${seed}, ${faults.size} faults\n${[...faults.keys()].join('\n')}\n\n${shown.join('\n\n')}`)
    }
    expect((await fetch(`${base}/healthz`)).status).toBe(200)
    expect(await verifyAudit(service.deps.database)).toMatchObject({ ok: true })
    expect([...secrets].filter((secret) => service.logged.some((line) => line.includes(secret)))).toEqual([])
    expect(service.logged.filter((line) => /"level":(?:50|60)/.test(line))).toEqual([])
  },
  runMs,
)
