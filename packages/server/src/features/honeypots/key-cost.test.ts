import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'
import { atOnce } from '../../testing/work.ts'
import { WorkBudget } from '../../work-turns.ts'
import { keyCheckUnits } from './decoy-search.ts'
import { KeySearch, maxKeyInputLength } from './key-extraction.ts'

const root = fileURLToPath(new URL('../../../../../', import.meta.url))

function costOf(text: string): { spent: number; isExhausted: boolean } {
  const budget = new WorkBudget(Number.MAX_SAFE_INTEGER)
  const search = new KeySearch(text, budget)
  atOnce(search.plainCandidates())
  atOnce(search.nestedCandidates())
  return budget
}

const filesIn = (folder: string, pattern: RegExp) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => pattern.test(name) && !name.includes('node_modules'))
    .map((name) => readFileSync(join(root, folder, name), 'utf8'))
    .join('\n')

/** Texts of the greatest length of a check, from the beginning, the middle and the end. */
function longest(text: string): string[] {
  const last = Math.max(0, text.length - maxKeyInputLength)
  return [0, Math.floor(last / 2), last].map((start) => text.slice(start, start + maxKeyInputLength))
}

const readers: Record<string, () => string> = {
  'TypeScript sources': () => filesIn('packages/server/src', /\.ts$/),
  'the components of a page': () => filesIn('packages/dashboard/src', /\.tsx$/),
  styles: () => filesIn('packages/dashboard/src', /\.css$/),
  'Python sources': () => filesIn('clients/python', /\.py$/),
  'guides in Markdown': () => filesIn('docs/guide', /\.md$/),
  'architecture decisions': () => filesIn('docs/adr', /\.md$/),
  'generated reference': () => filesIn('docs/reference', /\.md$/),
  'an API description in JSON': () => readFileSync(join(root, 'docs/reference/openapi.json'), 'utf8'),
  'a lock file': () => readFileSync(join(root, 'package-lock.json'), 'utf8'),
  declarations: () => readFileSync(join(root, 'node_modules/typescript/dist/ast/ast.generated.d.ts'), 'utf8'),
  'minified code': () => readFileSync(join(root, 'node_modules/react-dom/cjs/react-dom-client.production.js'), 'utf8'),
  'deployment files': () => filesIn('deploy', /\.(ya?ml|service|conf|sh|tpl)$/),
}

// A partial answer denies the call: an honest agent that writes a large file must not get one.
describe('64 KiB of ordinary text cost less than two thirds of a check', () => {
  test.each(Object.keys(readers))('%s', (name) => {
    for (const text of [...longest(readers[name]!()), ...longest(JSON.stringify(readers[name]!()))]) {
      const { spent, isExhausted } = costOf(text)
      expect(isExhausted).toBe(false)
      expect(spent).toBeLessThan((keyCheckUnits * 2) / 3)
    }
  })
})

let service: TestService
let agent: string
let decoyKey: string
beforeAll(async () => {
  service = await openTestService()
  agent = (await service.createKey('agent', ['bot-1'])).key
  const { body } = await service.call<{ key: string }>('POST', '/api/honeypots', {
    body: { instanceId: 'bot-1', type: 'api_key', keyType: 'github' },
  })
  decoyKey = body.key
})
afterAll(() => service[Symbol.asyncDispose]())

/** With a separate key by default, because costly checks use up its quota. */
async function check(text: string, key?: string) {
  const given = key ?? (await service.createKey('agent', ['bot-1'])).key
  return service.call<{ matched: boolean }>('POST', '/api/honeypots/check/key', { body: { key: text }, key: given })
}

/** Each start looks like packed data, which is costly to try. */
const costly = (length: number) => 'H4sI'.repeat(length / 4)

describe('a text that costs more than a check may', () => {
  // Padding must not let a call pass unnoticed: the client denies it.
  test('is answered as checked in part', async () => {
    const { body, headers } = await check(costly(64 * 1024))
    expect(body).toEqual({ matched: false })
    expect(headers['x-wardline-check']).toBe('partial')
    expect((await check('an ordinary text')).headers).not.toHaveProperty('x-wardline-check')
  })

  // Costly encodings must not use up the budget before what is cheap to find is found.
  test.each<[string, (key: string) => string]>([
    ['plain', (key) => key],
    ['in base64', (key) => Buffer.from(`key: ${key} `).toString('base64')],
    ['percent-encoded', (key) => key.replaceAll('_', '%5F')],
    ['backwards', (key) => [...key].reverse().join('')],
  ])('does not hide a decoy that is %s', async (_form, write) => {
    for (const text of [`${costly(60_000)}\n${write(decoyKey)}`, `${write(decoyKey)}\n${costly(60_000)}`]) {
      const { body, headers } = await check(text)
      expect(body).toEqual({ matched: true })
      expect(headers).not.toHaveProperty('x-wardline-check')
    }
  })

  // A call with large arguments is checked in parts at the same time: costly ones in front must not delay the decoy.
  test('does not delay a decoy in another check of the same key', async () => {
    const answered: string[] = []
    const parts = [...Array.from({ length: 6 }, () => costly(30_000)), `${'some filler\n'.repeat(2_500)}${decoyKey}`]
    await Promise.all(
      parts.map(async (text) => {
        const { body } = await check(text, agent)
        answered.push(body.matched ? 'decoy' : 'costly')
      }),
    )
    expect(answered[0]).toBe('decoy')
  })
})
